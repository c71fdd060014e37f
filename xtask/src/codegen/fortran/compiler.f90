
! What this compiler has, for the library (fortran/src/logicals.rs).
block data mpifort_compiler_data
  use, intrinsic :: iso_fortran_env, only: integer_kinds, logical_kinds, real_kinds
  implicit none
  integer, parameter :: logical_bytes = storage_size(.true.) / 8
  integer, parameter :: integer_bytes = storage_size(1) / 8
  integer, parameter :: real_bytes = storage_size(1.0) / 8
  integer, parameter :: double_bytes = storage_size(1.0d0) / 8
  integer, parameter :: logicals = merge(1, 0, any(logical_kinds == 1)) &
      + merge(2, 0, any(logical_kinds == 2)) + merge(4, 0, any(logical_kinds == 4)) &
      + merge(8, 0, any(logical_kinds == 8)) + merge(16, 0, any(logical_kinds == 16))
  integer, parameter :: integers = merge(1, 0, any(integer_kinds == 1)) &
      + merge(2, 0, any(integer_kinds == 2)) + merge(4, 0, any(integer_kinds == 4)) &
      + merge(8, 0, any(integer_kinds == 8)) + merge(16, 0, any(integer_kinds == 16))
  integer, parameter :: reals = merge(2, 0, any(real_kinds == 2)) &
      + merge(4, 0, any(real_kinds == 4)) + merge(8, 0, any(real_kinds == 8)) &
      + merge(16, 0, any(real_kinds == 16))
  logical :: yes, no
  integer :: sizes(4), kinds(3)
  common /mpifort_compiler/ yes, no, sizes, kinds
  data yes /.true./, no /.false./
  data sizes /logical_bytes, integer_bytes, real_bytes, double_bytes/
  data kinds /logicals, integers, reals/
end block data
