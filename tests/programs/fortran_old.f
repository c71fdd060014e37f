C     mpif.h in the fixed form: messages, requests, statuses, buffers,
C     attributes with integers, constants that are addresses.
      program old
      implicit none
      include 'mpif.h'
      integer ranks, rank, next, before, ierror, i, at, length, place
      integer status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2)
      integer requests(2), sent(4), got(4), indices(2), done
      integer room(300), keyval, value, seen, both
      logical flag
      double precision begun
      character*(MPI_MAX_PROCESSOR_NAME) name
      external keep
      common /kept/ seen
      seen = 0
      call MPI_INIT(ierror)
      call right(ierror .eq. MPI_SUCCESS, 'init')
      begun = MPI_WTIME()
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierror)
      next = mod(rank + 1, ranks)
      before = mod(rank + ranks - 1, ranks)
      do 10 i = 1, 4
        sent(i) = 10 * rank + i
 10   continue
      call MPI_SENDRECV(sent, 4, MPI_INTEGER, next, 5, got, 4,
     &  MPI_INTEGER, before, MPI_ANY_TAG, MPI_COMM_WORLD, status,
     &  ierror)
      call right(got(4) .eq. 10 * before + 4, 'sendrecv')
      call right(status(MPI_SOURCE) .eq. before, 'source')
      call right(status(MPI_TAG) .eq. 5, 'tag')
      call MPI_GET_COUNT(status, MPI_INTEGER, length, ierror)
      call right(length .eq. 4, 'count')
      call MPI_RECV(got, 4, MPI_INTEGER, MPI_PROC_NULL, 1,
     &  MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
C     One of two requests is null.
      requests(1) = MPI_REQUEST_NULL
      call MPI_IRECV(got, 4, MPI_INTEGER, before, 6, MPI_COMM_WORLD,
     &  requests(2), ierror)
      call MPI_SEND(sent, 4, MPI_INTEGER, next, 6, MPI_COMM_WORLD,
     &  ierror)
      call MPI_WAITANY(2, requests, at, status, ierror)
      call right(at .eq. 2, 'index')
      call right(requests(2) .eq. MPI_REQUEST_NULL, 'null request')
      call MPI_WAITANY(2, requests, at, MPI_STATUS_IGNORE, ierror)
      call right(at .eq. MPI_UNDEFINED, 'no index')
      call MPI_IRECV(got(1), 1, MPI_INTEGER, before, 7,
     &  MPI_COMM_WORLD, requests(1), ierror)
      call MPI_ISEND(sent(1), 1, MPI_INTEGER, next, 7,
     &  MPI_COMM_WORLD, requests(2), ierror)
      call MPI_WAITALL(2, requests, statuses, ierror)
      call right(statuses(MPI_TAG, 1) .eq. 7, 'statuses')
C     Of the two constants, programs take the wrong one, too.
      call MPI_IRECV(got(1), 1, MPI_INTEGER, before, 7,
     &  MPI_COMM_WORLD, requests(1), ierror)
      call MPI_ISEND(sent(1), 1, MPI_INTEGER, next, 7,
     &  MPI_COMM_WORLD, requests(2), ierror)
      MPI_STATUS_IGNORE(MPI_TAG) = 0
      call MPI_WAITALL(2, requests, MPI_STATUS_IGNORE, ierror)
      call right(MPI_STATUS_IGNORE(MPI_TAG) .eq. 0, 'ignored')
      call MPI_IRECV(got(1), 1, MPI_INTEGER, before, 8,
     &  MPI_COMM_WORLD, requests(1), ierror)
      call MPI_ISSEND(sent(2), 1, MPI_INTEGER, next, 8,
     &  MPI_COMM_WORLD, requests(2), ierror)
      both = 0
 20   call MPI_TESTSOME(2, requests, done, indices,
     &  MPI_STATUSES_IGNORE, ierror)
      if (done .ne. MPI_UNDEFINED) then
        do 30 i = 1, done
          both = both + indices(i)
 30     continue
        go to 20
      end if
      call right(both .eq. 3, 'indices')
      call right(got(1) .eq. 10 * before + 2, 'testsome')
      flag = .true.
      call MPI_IPROBE(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, flag, status,
     &  ierror)
      call right(.not. flag, 'probe of nothing')
C     A buffer for sends, which comes back without its address.
      call MPI_BUFFER_ATTACH(room, 1200, ierror)
      call MPI_BSEND(sent, 4, MPI_INTEGER, next, 9, MPI_COMM_WORLD,
     &  ierror)
      call MPI_PROBE(before, 9, MPI_COMM_WORLD, status, ierror)
      call MPI_RECV(got, 4, MPI_INTEGER, before, 9, MPI_COMM_WORLD,
     &  status, ierror)
      call MPI_BUFFER_DETACH(room, length, ierror)
      call right(length .eq. 1200, 'buffer')
      place = 0
      call MPI_PACK(sent, 2, MPI_INTEGER, room, 1200, place,
     &  MPI_COMM_WORLD, ierror)
      call MPI_PACK(sent(4), 1, MPI_INTEGER, room, 1200, place,
     &  MPI_COMM_WORLD, ierror)
      call right(place .eq. 12, 'packed')
      place = 0
      call MPI_UNPACK(room, 1200, place, got, 2, MPI_INTEGER,
     &  MPI_COMM_WORLD, ierror)
      call MPI_UNPACK(room, 1200, place, got(3), 1, MPI_INTEGER,
     &  MPI_COMM_WORLD, ierror)
      call right(got(3) .eq. sent(4) .and. got(2) .eq. sent(2),
     &  'unpacked')
      call right(MPI_WTIME() .ge. begun, 'time')
C     What MPI-3.0 removed.
      call MPI_TYPE_HVECTOR(2, 1, 8, MPI_INTEGER, at, ierror)
      call MPI_TYPE_COMMIT(at, ierror)
      call MPI_TYPE_EXTENT(at, length, ierror)
      call right(length .eq. 12, 'extent')
      call MPI_SENDRECV(sent, 1, at, next, 11, got, 4, MPI_INTEGER,
     &  before, 11, MPI_COMM_WORLD, status, ierror)
      call right(got(2) .eq. 10 * before + 3, 'hvector')
      call MPI_TYPE_FREE(at, ierror)
      call MPI_ADDRESS(sent(1), place, ierror)
      call MPI_ADDRESS(sent(3), length, ierror)
      call right(length - place .eq. 8, 'addresses')
      call MPI_ERRHANDLER_SET(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL,
     &  ierror)
C     In place, and attributes of MPI-1.
      got(1) = rank
      call MPI_ALLREDUCE(MPI_IN_PLACE, got, 1, MPI_INTEGER, MPI_SUM,
     &  MPI_COMM_WORLD, ierror)
      call right(got(1) .eq. ranks * (ranks - 1) / 2, 'in place')
      call MPI_ATTR_GET(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierror)
      call right(flag .and. value .ge. 32767, 'upper bound of tags')
      call MPI_KEYVAL_CREATE(MPI_DUP_FN, keep, keyval, 77, ierror)
      call MPI_COMM_DUP(MPI_COMM_WORLD, at, ierror)
      call MPI_ATTR_PUT(at, keyval, -5, ierror)
      call MPI_COMM_DUP(at, both, ierror)
      call MPI_ATTR_GET(both, keyval, value, flag, ierror)
      call right(flag .and. value .eq. -5, 'copied attribute')
      call MPI_COMM_FREE(both, ierror)
      call right(seen .eq. 1, 'deleted attribute')
      call right(both .eq. MPI_COMM_NULL, 'no communicator')
      call MPI_ATTR_DELETE(at, keyval, ierror)
      call right(seen .eq. 2, 'deleted attributes')
      call MPI_COMM_FREE(at, ierror)
      call MPI_KEYVAL_FREE(keyval, ierror)
      call right(keyval .eq. MPI_KEYVAL_INVALID, 'no key')
      name = 'x'
      call MPI_GET_PROCESSOR_NAME(name, length, ierror)
      call right(name(length:length) .ne. ' ', 'name')
      call right(name(length+1:) .eq. ' ', 'blanks')
      call MPI_FINALIZED(flag, ierror)
      call right(.not. flag, 'not finalized')
      call MPI_BARRIER(MPI_COMM_WORLD, ierror)
      if (rank .eq. 0) print 40, ranks
 40   format('fortran_old: right on ', i0, ' ranks')
      call MPI_FINALIZE(ierror)
      end

      subroutine keep(comm, keyval, value, state, ierror)
      implicit none
      integer comm, keyval, value, state, ierror, seen
      common /kept/ seen
      call right(value .eq. -5 .and. state .eq. 77, 'callback')
      seen = seen + 1
      ierror = 0
      end

      subroutine right(is_right, what)
      implicit none
      include 'mpif.h'
      logical is_right
      character*(*) what
      integer ierror
      if (.not. is_right) then
        print *, 'wrong: ', what
        call MPI_ABORT(MPI_COMM_WORLD, 3, ierror)
      end if
      end
