! Files and neighbourhood collectives in the module mpi_f08.
program io
    use mpi_f08
    implicit none
    integer :: ranks, rank, next, before
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    next = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)
    call neighbours
    call files
    if (rank == 0) print '(a, i0, a)', 'fortran_io: right on ', ranks, ' ranks'
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

    subroutine neighbours
        type(MPI_Comm) :: graph
        type(MPI_Request) :: request
        type(MPI_Datatype) :: types(1) = MPI_INTEGER
        integer :: got(2), one(1) = 1
        integer, asynchronous :: mine(1), later(2)
        integer(MPI_ADDRESS_KIND) :: start(1) = 0
        mine = rank
        call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [before], MPI_UNWEIGHTED, 1, [next], &
            MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph)
        call MPI_Neighbor_alltoall(rank, 1, MPI_INTEGER, got, 1, MPI_INTEGER, graph)
        call check(got(1) == before, 'neighbour')
        got = -1
        call MPI_Neighbor_alltoallw(mine, one, start, types, got, one, [4_MPI_ADDRESS_KIND], types, graph)
        call check(got(1) == -1 .and. got(2) == before, 'neighbour with datatypes')
        later = -1
        call MPI_Ineighbor_alltoallw(mine, one, start, types, later, one, start, types, graph, request)
        call MPI_Wait(request, MPI_STATUS_IGNORE)
        call check(later(1) == before, 'neighbour later')
        call MPI_Comm_free(graph)
    end subroutine

    subroutine files
        type(MPI_File) :: file
        type(MPI_Status) :: status
        integer :: numbers(6), got(6), i, length
        character(len=200) :: path
        call get_command_argument(1, path)
        numbers = [(100 * rank + i, i = 1, 6)]
        got = 0
        call MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file)
        call MPI_File_write_at(file, 12_MPI_OFFSET_KIND * rank, numbers(2:6:2), 3, MPI_INTEGER, status)
        call MPI_Get_count(status, MPI_INTEGER, length)
        call check(length == 3, 'written')
        call MPI_File_sync(file)
        call MPI_Barrier(MPI_COMM_WORLD)
        call MPI_File_read_at_all(file, 12_MPI_OFFSET_KIND * next, got(1:5:2), 3, MPI_INTEGER, status)
        call check(all(got(1:5:2) == 100 * next + [2, 4, 6]) .and. all(got(2::2) == 0), 'read')
        call MPI_File_close(file)
        call check(file == MPI_FILE_NULL, 'file is closed')
    end subroutine
end program
