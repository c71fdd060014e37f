/* Runs a command from which a system call is kept: it fails with EPERM, as under the filters of containers.
 *
 *   without process_vm_readv|process_vm_writev|memfd_create COMMAND [ARGUMENT ...] */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    unsigned number;
    if (argc > 2 && !strcmp(argv[1], "process_vm_readv"))
        number = SYS_process_vm_readv;
    else if (argc > 2 && !strcmp(argv[1], "process_vm_writev"))
        number = SYS_process_vm_writev;
    else if (argc > 2 && !strcmp(argv[1], "memfd_create"))
        number = SYS_memfd_create;
    else
        return 2;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("without: prctl");
        return 2;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
