! Processes that are started, in the module mpi_f08: arguments are texts with blanks. Rejoin does not
! have them yet; it runs on other libraries of the standard ABI.
program spawn
    use mpi_f08
    implicit none
    integer :: rank, ranks
    type(MPI_Comm) :: parent
    call MPI_Init()
    call MPI_Comm_get_parent(parent)
    if (parent /= MPI_COMM_NULL) call child
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    call processes
    if (rank == 0) print '(a, i0, a)', 'fortran_spawn: right on ', ranks, ' ranks'
    call MPI_Finalize()
contains
    subroutine check(right, what)
        logical, intent(in) :: right
        character(len=*), intent(in) :: what
        if (.not. right) then
            print *, 'wrong: ', what
            call MPI_Abort(MPI_COMM_WORLD, 3)
        end if
    end subroutine

    ! Blanks around arguments are none of theirs.
    subroutine processes
        type(MPI_Comm) :: children
        integer :: codes(2), answers(2), number
        character(len=300) :: self
        character(len=12) :: arguments(2, 3)
        if (rank /= 0) return
        call get_command_argument(0, self)
        arguments(:, 1) = ['first   ', 'second  ']
        arguments(:, 2) = [' a b    ', 'c       ']
        arguments(:, 3) = ' '
        call MPI_Comm_spawn(self, [character(len=8) :: 'first', ' a b', ''], 1, MPI_INFO_NULL, 0, &
            MPI_COMM_SELF, children, MPI_ERRCODES_IGNORE)
        call MPI_Recv(number, 1, MPI_INTEGER, 0, 1, children, MPI_STATUS_IGNORE)
        call check(number == 1, 'arguments of a process')
        call MPI_Comm_disconnect(children)
        codes = -1
        call MPI_Comm_spawn_multiple(2, [self, self], arguments, [1, 1], [MPI_INFO_NULL, MPI_INFO_NULL], &
            0, MPI_COMM_SELF, children, codes)
        call check(all(codes == MPI_SUCCESS), 'codes of processes')
        call MPI_Recv(answers(1), 1, MPI_INTEGER, 0, 1, children, MPI_STATUS_IGNORE)
        call MPI_Recv(answers(2), 1, MPI_INTEGER, 1, 1, children, MPI_STATUS_IGNORE)
        call check(all(answers == [1, 2]), 'arguments of processes')
        call MPI_Comm_disconnect(children)
    end subroutine

    subroutine child
        character(len=20) :: first, second
        integer :: number, length, of_all
        call get_command_argument(1, first)
        call get_command_argument(2, second, length)
        number = 0
        of_all = command_argument_count()
        if (first == 'first' .and. second == 'a b' .and. length == 3 .and. of_all == 2) number = 1
        if (first == 'second' .and. second == 'c' .and. length == 1 .and. of_all == 2) number = 2
        call MPI_Send(number, 1, MPI_INTEGER, 0, 1, parent)
        call MPI_Comm_disconnect(parent)
        call MPI_Finalize()
        stop
    end subroutine
end program
