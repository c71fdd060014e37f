! Whether a compiler passes arguments as the library reads them: run once for each compiler, before
! its modules are used. A compiler may accept a directive and ignore it, so this must run.
program probe
  use mpi_f08
  implicit none
  interface
    subroutine described(x, one, place, nothing, absent, wrong) bind(C, name="mpifort_probe_described_")
      type(*), dimension(..), target, intent(in) :: x, one, place
      character(len=*), intent(in) :: nothing
      integer, optional, intent(out) :: absent
      integer, intent(out) :: wrong
    end subroutine
    subroutine mpifort_probe_plain(x, text, yes, no, wrong, absent)
      !GCC$ ATTRIBUTES NO_ARG_CHECK :: x
      !DIR$ IGNORE_TKR x
      type(*), dimension(*), target :: x
      character(len=*), intent(in) :: text
      logical, intent(in) :: yes, no
      integer, intent(out) :: wrong
      integer, optional, intent(out) :: absent
    end subroutine
  end interface
  real :: a(10, 12)
  integer :: scalar, table(2, 2), wrong
  double precision :: wide
  a = 0
  scalar = 42
  table = 42
  call described(a(2:8:3, 1:9:4), scalar, MPI_BOTTOM, 'text', wrong=wrong)
  if (wrong /= 0) call refuse('C descriptors of sections', wrong)
  call mpifort_probe_plain(scalar, 'four', .true., .false., wrong)
  if (wrong /= 0) call refuse('scalars in place of arrays', wrong)
  call mpifort_probe_plain(table, 'four', .true., .false., wrong)
  if (wrong /= 0) call refuse('arrays of any rank', wrong)
  wide = transfer([42, 0], wide)
  call mpifort_probe_plain(wide, 'four', .true., .false., wrong)
  if (wrong /= 0) call refuse('arguments of any type', wrong)
contains
  subroutine refuse(what, number)
    character(len=*), intent(in) :: what
    integer, intent(in) :: number
    print '(a, a, i0)', what, ': not as the library reads them, number ', number
    stop 1
  end subroutine
end program
