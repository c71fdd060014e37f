! Heat in a plate that is cut into columns and rows of blocks: sections of the plate are the buffers
! of persistent and nonblocking messages, without copies. Prints the residual now and then, and a
! checksum at the end, which are the same for any run with as many ranks.
!
!   fortran_plate [SIDE [STEPS]]
program plate
    use mpi_f08
    implicit none
    integer, parameter :: shown = 8
    integer :: side, steps, step, dims(2), coords(2), rank, ranks, left, right, up, down, rows, columns
    double precision, allocatable, asynchronous :: heat(:, :)
    double precision, allocatable :: next(:, :)
    double precision :: change, total
    type(MPI_Comm) :: grid
    type(MPI_Request) :: requests(8)
    side = argument(1, 96)
    steps = argument(2, 300)
    call MPI_Init()
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    dims = 0
    call MPI_Dims_create(ranks, 2, dims)
    call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.false., .true.], .false., grid)
    call MPI_Comm_rank(grid, rank)
    call MPI_Cart_coords(grid, rank, 2, coords)
    call MPI_Cart_shift(grid, 0, 1, up, down)
    call MPI_Cart_shift(grid, 1, 1, left, right)
    rows = side / dims(1)
    columns = side / dims(2)
    allocate (heat(0:rows + 1, 0:columns + 1), next(rows, columns))
    heat = 0
    if (coords(1) == 0) heat(0, :) = 100
    heat(rows / 2, columns / 2) = rank
    ! Columns lie side by side in memory, rows do not.
    call MPI_Send_init(heat(1:rows, 1), rows, MPI_DOUBLE_PRECISION, left, 1, grid, requests(1))
    call MPI_Send_init(heat(1:rows, columns), rows, MPI_DOUBLE_PRECISION, right, 2, grid, requests(2))
    call MPI_Recv_init(heat(1:rows, columns + 1), rows, MPI_DOUBLE_PRECISION, right, 1, grid, requests(3))
    call MPI_Recv_init(heat(1:rows, 0), rows, MPI_DOUBLE_PRECISION, left, 2, grid, requests(4))
    do step = 1, steps
        call MPI_Startall(4, requests)
        call MPI_Irecv(heat(rows + 1, 1:columns), columns, MPI_DOUBLE_PRECISION, down, 3, grid, requests(5))
        call MPI_Irecv(heat(0, 1:columns), columns, MPI_DOUBLE_PRECISION, up, 4, grid, requests(6))
        call MPI_Isend(heat(1, 1:columns), columns, MPI_DOUBLE_PRECISION, up, 3, grid, requests(7))
        call MPI_Isend(heat(rows, 1:columns), columns, MPI_DOUBLE_PRECISION, down, 4, grid, requests(8))
        call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE)
        call MPI_F_sync_reg(heat)
        next = 0.25d0 * (heat(0:rows - 1, 1:columns) + heat(2:, 1:columns) + heat(1:rows, 0:columns - 1) &
            + heat(1:rows, 2:))
        change = sum((next - heat(1:rows, 1:columns))**2)
        heat(1:rows, 1:columns) = next
        call MPI_Allreduce(MPI_IN_PLACE, change, 1, MPI_DOUBLE_PRECISION, MPI_SUM, grid)
        if (rank == 0 .and. mod(step, max(1, steps / shown)) == 0) print '(a, i0, a, es22.15)', &
            'step ', step, ': ', change
    end do
    total = sum(next)
    call MPI_Reduce(total, change, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, grid)
    if (rank == 0) print '(a, es22.15)', 'sum ', change
    do step = 1, 4
        call MPI_Request_free(requests(step))
    end do
    call MPI_Comm_free(grid)
    call MPI_Finalize()
contains
    integer function argument(place, default)
        integer, intent(in) :: place, default
        character(len=20) :: text
        argument = default
        if (command_argument_count() < place) return
        call get_command_argument(place, text)
        read (text, *) argument
    end function
end program
