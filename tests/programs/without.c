/* Runs a command in which a system call fails with EPERM, as under the filters of containers. The
 * other ways concern fallocate. It fails with ENOSPC, as if no memory were left: `all` for any
 * length, `most` from a page on, as if some were left. With `signals` it fails with EINTR. With
 * `new_calls` nothing is there that Linux 5.14 does not have: system calls, and the kernel's search
 * for pages.
 *
 *   without process_vm_readv|process_vm_writev|memfd_create|pidfd_open|all|most|signals|new_calls COMMAND [ARGUMENT ...] */
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

/* The first system call that came after Linux 5.14. */
#define FIRST_NEW_CALL 448
/* Of /proc/PID/pagemap, since Linux 6.7. */
#define PAGEMAP_SCAN 0xc0606610

static int run(struct sock_fprog program, char **command)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("without: prctl");
        return 2;
    }
    execvp(command[0], command);
    perror(command[0]);
    return 2;
}

static int run_without_new_calls(char **command)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_NEW_CALL, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 4),
        /* The low half of the second argument. */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PAGEMAP_SCAN, 0, 2),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return run((struct sock_fprog){sizeof filter / sizeof *filter, filter}, command);
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "new_calls"))
        return run_without_new_calls(argv + 2);
    unsigned number, error = EPERM, least = 0;
    if (argc > 2 && !strcmp(argv[1], "process_vm_readv"))
        number = SYS_process_vm_readv;
    else if (argc > 2 && !strcmp(argv[1], "process_vm_writev"))
        number = SYS_process_vm_writev;
    else if (argc > 2 && !strcmp(argv[1], "memfd_create"))
        number = SYS_memfd_create;
    else if (argc > 2 && !strcmp(argv[1], "pidfd_open"))
        number = SYS_pidfd_open;
    else if (argc > 2 && !strcmp(argv[1], "all"))
        number = SYS_fallocate, error = ENOSPC;
    else if (argc > 2 && !strcmp(argv[1], "most"))
        number = SYS_fallocate, error = ENOSPC, least = 4096;
    else if (argc > 2 && !strcmp(argv[1], "signals"))
        number = SYS_fallocate, error = EINTR;
    else
        return 2;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
        /* The low half of the fourth argument. */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, least, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return run((struct sock_fprog){sizeof filter / sizeof *filter, filter}, argv + 2);
}
