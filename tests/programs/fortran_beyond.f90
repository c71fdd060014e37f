! What Rejoin does not have yet, in the module mpi_f08: windows. It runs on other
! libraries of the standard ABI.
program beyond
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    integer :: ranks, rank, next, before
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    next = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)
    call windows
    if (rank == 0) print '(a, i0, a)', 'fortran_beyond: right on ', ranks, ' ranks'
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

    subroutine windows
        integer, asynchronous :: shown(8), taken(8)
        integer, pointer :: mine(:)
        integer(MPI_ADDRESS_KIND) :: value, at
        integer :: i
        logical :: flag
        type(c_ptr) :: place
        type(MPI_Win) :: win
        shown = [(100 * rank + i, i = 1, 8)]
        taken = 0
        call MPI_Win_create(shown, 32_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
        call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag)
        call check(flag .and. value == 32, 'size of a window')
        call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag)
        call check(flag .and. value == 4, 'unit of a window')
        call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag)
        call MPI_Get_address(shown, at)
        call check(flag .and. value == at, 'base of a window')
        call MPI_Win_fence(0, win)
        call MPI_Get(taken(1:7:2), 4, MPI_INTEGER, next, 2_MPI_ADDRESS_KIND, 4, MPI_INTEGER, win)
        call MPI_Win_fence(0, win)
        call MPI_F_sync_reg(taken)
        call check(all(taken(1:7:2) == 100 * next + [3, 4, 5, 6]) .and. all(taken(2::2) == 0), 'get')
        call MPI_Win_free(win)
        call check(win == MPI_WIN_NULL, 'window is gone')
        call MPI_Win_allocate(16_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, place, win)
        call c_f_pointer(place, mine, [4])
        mine = 1
        call MPI_Win_fence(0, win)
        call MPI_Accumulate([rank], 1, MPI_INTEGER, next, 1_MPI_ADDRESS_KIND, 1, MPI_INTEGER, MPI_SUM, win)
        call MPI_Win_fence(0, win)
        call check(mine(2) == 1 + before .and. mine(1) == 1, 'accumulate')
        call MPI_Win_free(win)
    end subroutine
end program
