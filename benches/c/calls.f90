! What a call costs in Fortran, as calls.c has it in C: calls lat|self|rank ITERS.
program calls
    use mpi_f08
    implicit none
    character(len=16) :: what, text
    integer :: rank, iters, parts
    double precision :: start

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call get_command_argument(1, what)
    call get_command_argument(2, text)
    read (text, *) iters
    parts = 1
    select case (what)
    case ('lat')
        call latency()
        parts = 2
    case ('self')
        call itself()
        parts = 3
    case ('rank')
        call ask()
    case default
        call MPI_Abort(MPI_COMM_WORLD, 2)
    end select
    if (rank == 0) print '(2a,i0,a,f0.3)', trim(what), char(9), 8, char(9), (MPI_Wtime() - start) / iters / parts * 1d9
    call MPI_Finalize()

contains

    subroutine latency()
        double precision :: mine(1), theirs(1)
        integer :: i
        mine = rank
        theirs = -1
        do i = -iters / 10 - 1, iters - 1
            if (i == 0) start = MPI_Wtime()
            if (rank == 0) call MPI_Send(mine, 1, MPI_DOUBLE_PRECISION, 1, 1, MPI_COMM_WORLD)
            if (rank < 2) call MPI_Recv(theirs, 1, MPI_DOUBLE_PRECISION, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
            if (rank == 1) call MPI_Send(mine, 1, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_WORLD)
        end do
        if (rank < 2 .and. theirs(1) /= 1 - rank) call MPI_Abort(MPI_COMM_WORLD, 2)
    end subroutine

    subroutine itself()
        double precision, asynchronous :: mine(1), theirs(1)
        type(MPI_Request) :: requests(2)
        integer :: i
        do i = -iters / 10 - 1, iters - 1
            if (i == 0) start = MPI_Wtime()
            mine = i
            call MPI_Irecv(theirs, 1, MPI_DOUBLE_PRECISION, rank, 1, MPI_COMM_WORLD, requests(1))
            call MPI_Isend(mine, 1, MPI_DOUBLE_PRECISION, rank, 1, MPI_COMM_WORLD, requests(2))
            call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
            if (.not. MPI_ASYNC_PROTECTS_NONBLOCKING) call MPI_F_sync_reg(theirs)
            if (theirs(1) /= i) call MPI_Abort(MPI_COMM_WORLD, 2)
        end do
    end subroutine

    subroutine ask()
        integer :: i, own
        do i = -iters / 10 - 1, iters - 1
            if (i == 0) start = MPI_Wtime()
            call MPI_Comm_rank(MPI_COMM_WORLD, own)
        end do
        if (own /= rank) call MPI_Abort(MPI_COMM_WORLD, 2)
    end subroutine

end program
