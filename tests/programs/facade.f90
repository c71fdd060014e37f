! What a façade for Fortran translates: integers of handles, statuses, addresses that stand for
! something, texts with blanks, indices from 1, operations of the program and attributes.
module parts
    implicit none
    include 'mpif.h'
    integer :: deletions = 0, errors = 0
contains
    subroutine check(right, what)
        logical, intent(in) :: right
        character(len=*), intent(in) :: what
        integer :: ierror
        if (.not. right) then
            print *, 'wrong: ', what
            call MPI_Abort(MPI_COMM_WORLD, 3, ierror)
        end if
    end subroutine
    subroutine larger(from, into, count, datatype)
        integer :: count, datatype
        integer :: from(count), into(count)
        call check(datatype == MPI_INTEGER, 'datatype of an operation')
        into = max(from, into)
    end subroutine
    subroutine copied(comm, key, state, from, into, flag, ierror)
        integer :: comm, key, ierror
        integer(kind=MPI_ADDRESS_KIND) :: state, from, into
        logical :: flag
        call check(state == 77, 'state of a key')
        into = from + 1
        flag = .true.
        ierror = MPI_SUCCESS
    end subroutine
    subroutine deleted(comm, key, value, state, ierror)
        integer :: comm, key, ierror
        integer(kind=MPI_ADDRESS_KIND) :: value, state
        call check(state == 77, 'state of a key at its end')
        deletions = deletions + 1
        ierror = MPI_SUCCESS
    end subroutine
    subroutine handler(comm, code)
        integer :: comm, code
        call check(comm == MPI_COMM_WORLD .and. code == MPI_ERR_RANK, 'error handler')
        errors = errors + 1
    end subroutine
    subroutine asked(state, status, ierror)
        integer(kind=MPI_ADDRESS_KIND) :: state
        integer :: status(MPI_STATUS_SIZE), ierror
        call MPI_Status_set_elements(status, MPI_INTEGER, int(state), ierror)
        call MPI_Status_set_cancelled(status, .false., ierror)
        status(MPI_SOURCE) = MPI_PROC_NULL
        status(MPI_TAG) = 6
        ierror = MPI_SUCCESS
    end subroutine
    subroutine freed(state, ierror)
        integer(kind=MPI_ADDRESS_KIND) :: state
        integer :: ierror
        deletions = deletions + int(state)
        ierror = MPI_SUCCESS
    end subroutine
    subroutine cancelled(state, complete, ierror)
        integer(kind=MPI_ADDRESS_KIND) :: state
        logical :: complete
        integer :: ierror
        ierror = MPI_SUCCESS
    end subroutine

    subroutine own_callbacks(rank, ranks)
        integer, intent(in) :: rank, ranks
        integer :: key, second, comm, errhandler, before, request, ierror, length
        integer :: status(MPI_STATUS_SIZE)
        integer(kind=MPI_ADDRESS_KIND) :: state, value
        logical :: flag
        state = 77
        call MPI_Comm_create_keyval(copied, deleted, key, state, ierror)
        call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, second, state, ierror)
        value = -5
        call MPI_Comm_set_attr(MPI_COMM_WORLD, key, value, ierror)
        call MPI_Comm_set_attr(MPI_COMM_WORLD, second, value, ierror)
        call MPI_Comm_idup(MPI_COMM_WORLD, comm, request, ierror)
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
        call check(comm /= MPI_COMM_NULL, 'duplicate')
        call MPI_Comm_get_attr(comm, key, value, flag, ierror)
        call check(flag .and. value == -4, 'copied value')
        call MPI_Comm_get_attr(comm, second, value, flag, ierror)
        call check(flag .and. value == -5, 'same value')
        call MPI_Comm_free(comm, ierror)
        call MPI_Comm_delete_attr(MPI_COMM_WORLD, key, ierror)
        call MPI_Comm_delete_attr(MPI_COMM_WORLD, second, ierror)
        call check(deletions == 2, 'deleted values')
        call MPI_Comm_free_keyval(key, ierror)
        call check(key == MPI_KEYVAL_INVALID, 'key is gone')
        call MPI_Comm_create_errhandler(handler, errhandler, ierror)
        call MPI_Comm_get_errhandler(MPI_COMM_WORLD, before, ierror)
        call check(before == MPI_ERRORS_ARE_FATAL, 'error handler before')
        call MPI_Comm_set_errhandler(MPI_COMM_WORLD, errhandler, ierror)
        call MPI_Send(rank, 1, MPI_INTEGER, ranks + 5, 0, MPI_COMM_WORLD, ierror)
        call check(errors == 1, 'calls of the error handler')
        call MPI_Comm_set_errhandler(MPI_COMM_WORLD, before, ierror)
        call MPI_Errhandler_free(errhandler, ierror)
        state = 3
        call MPI_Grequest_start(asked, freed, cancelled, state, request, ierror)
        call MPI_Grequest_complete(request, ierror)
        call MPI_Wait(request, status, ierror)
        call MPI_Get_count(status, MPI_INTEGER, length, ierror)
        call check(length == 3 .and. status(MPI_TAG) == 6, 'generalized request')
        call check(status(MPI_SOURCE) == MPI_PROC_NULL .and. deletions == 5, 'its end')
    end subroutine

    subroutine settings
        integer :: info, ierror
        character(len=8) :: value
        logical :: flag
        call MPI_Info_create(info, ierror)
        call MPI_Info_set(info, ' first ', ' one ', ierror)
        value = 'default'
        call MPI_Info_get(info, 'second', 7, value, flag, ierror)
        call check(.not. flag .and. value == 'default', 'a value that is not there')
        call MPI_Info_get(info, 'first', 7, value, flag, ierror)
        call check(flag .and. value == 'one', 'a value with blanks around it')
        call MPI_Info_free(info, ierror)
    end subroutine

    subroutine arrays(rank, ranks)
        integer, intent(in) :: rank, ranks
        integer :: sent(ranks), got(ranks), ones(ranks), places(ranks), types(ranks), i, request
        integer :: vector, n, addresses, datatypes, combiner, integers(8), parts(2), ierror
        integer(kind=MPI_ADDRESS_KIND) :: apart(2)
        sent = [(100 * rank + i, i = 0, ranks - 1)]
        ones = 1
        places = [(4 * i, i = 0, ranks - 1)]
        types = MPI_INTEGER
        call MPI_Alltoallw(sent, ones, places, types, got, ones, places, types, MPI_COMM_WORLD, ierror)
        call check(all(got == [(100 * i + rank, i = 0, ranks - 1)]), 'all to all')
        call MPI_Ialltoallw(got, ones, places, types, sent, ones, places, types, MPI_COMM_WORLD, &
            request, ierror)
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
        call check(all(sent == [(100 * rank + i, i = 0, ranks - 1)]), 'all to all and back')
        call MPI_Alltoallw(MPI_IN_PLACE, ones, places, types, sent, ones, places, types, &
            MPI_COMM_WORLD, ierror)
        call check(all(sent == got), 'all to all in place')
        call MPI_Type_contiguous(3, MPI_DOUBLE_PRECISION, vector, ierror)
        call MPI_Type_get_envelope(vector, n, addresses, datatypes, combiner, ierror)
        call check(combiner == MPI_COMBINER_CONTIGUOUS .and. datatypes == 1, 'envelope')
        call MPI_Type_get_contents(vector, 8, 2, 2, integers, apart, parts, ierror)
        call check(integers(1) == 3 .and. parts(1) == MPI_DOUBLE_PRECISION, 'contents')
        call MPI_Type_free(vector, ierror)
    end subroutine
end module

program facade
    use parts
    implicit none
    ! The header of MPICH 4.0 does not declare them.
    interface
        integer(kind=MPI_ADDRESS_KIND) function aint_add(base, change) bind(c, name='mpi_aint_add_')
            import :: MPI_ADDRESS_KIND
            integer(kind=MPI_ADDRESS_KIND) :: base, change
        end function
        integer(kind=MPI_ADDRESS_KIND) function aint_diff(to, from) bind(c, name='mpi_aint_diff_')
            import :: MPI_ADDRESS_KIND
            integer(kind=MPI_ADDRESS_KIND) :: to, from
        end function
    end interface
    integer :: rank, ranks, next, before, ierror, op, most, length, i, at, part, vector, group
    integer :: some(2), apart(4)
    integer :: status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2), requests(2), got(4), sent(4)
    integer(kind=MPI_ADDRESS_KIND) :: bound, low, extent
    double precision :: values(3), begun
    integer(kind=8) :: room(200)
    character(len=MPI_MAX_ERROR_STRING) :: text
    character(len=MPI_MAX_OBJECT_NAME) :: name
    logical :: flag
    call MPI_Init(ierror)
    begun = MPI_Wtime()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
    next = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)

    sent = [(10 * rank + i, i = 1, 4)]
    call MPI_Sendrecv(sent, 4, MPI_INTEGER, next, 5, got, 4, MPI_INTEGER, before, MPI_ANY_TAG, &
        MPI_COMM_WORLD, status, ierror)
    call check(all(got == [(10 * before + i, i = 1, 4)]), 'received')
    call check(status(MPI_SOURCE) == before .and. status(MPI_TAG) == 5, 'status')
    call MPI_Get_count(status, MPI_INTEGER, length, ierror)
    call check(length == 4, 'count')
    call MPI_Recv(got, 4, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, status, ierror)
    call check(status(MPI_SOURCE) == MPI_PROC_NULL, 'source')

    call MPI_Irecv(got, 4, MPI_INTEGER, before, 6, MPI_COMM_WORLD, requests(2), ierror)
    requests(1) = MPI_REQUEST_NULL
    call MPI_Send(sent, 4, MPI_INTEGER, next, 6, MPI_COMM_WORLD, ierror)
    call MPI_Waitany(2, requests, at, MPI_STATUS_IGNORE, ierror)
    call check(at == 2 .and. requests(2) == MPI_REQUEST_NULL, 'index')
    call MPI_Irecv(got(1), 1, MPI_INTEGER, before, 7, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Isend(sent(1), 1, MPI_INTEGER, next, 7, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Waitall(2, requests, statuses, ierror)
    call check(statuses(MPI_TAG, 1) == 7, 'statuses')
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)

    values = rank
    call MPI_Allreduce(MPI_IN_PLACE, values, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
    call check(all(values == ranks * (ranks - 1) / 2), 'sum in place')
    call MPI_Op_create(larger, .true., op, ierror)
    call MPI_Allreduce(rank, most, 1, MPI_INTEGER, op, MPI_COMM_WORLD, ierror)
    call check(most == ranks - 1, 'own operation')
    call MPI_Op_free(op, ierror)
    call check(op == MPI_OP_NULL, 'operation is gone')

    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, part, ierror)
    call MPI_Comm_set_name(part, 'a part  ', ierror)
    call MPI_Comm_get_name(part, name, length, ierror)
    call check(name == 'a part' .and. length == 6, 'name')
    call MPI_Comm_group(part, group, ierror)
    call MPI_Group_free(group, ierror)
    call MPI_Comm_free(part, ierror)
    call check(part == MPI_COMM_NULL, 'communicator is gone')
    call MPI_Type_vector(2, 1, 3, MPI_INTEGER, vector, ierror)
    call MPI_Type_commit(vector, ierror)
    call MPI_Type_get_extent(vector, low, extent, ierror)
    call check(low == 0 .and. extent == 16, 'extent')
    call MPI_Type_free(vector, ierror)

    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, bound, flag, ierror)
    call check(flag .and. bound >= 32767, 'attribute')
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierror)
    call MPI_Send(rank, 1, MPI_INTEGER, ranks + 5, 0, MPI_COMM_WORLD, ierror)
    call check(ierror == MPI_ERR_RANK, 'error')
    call MPI_Error_string(ierror, text, length, ierror)
    call check(length > 0 .and. text(length + 1:) == ' ', 'text')
    ! Indices count from 1 also if a request has failed.
    requests(1) = MPI_REQUEST_NULL
    call MPI_Irecv(got, 1, MPI_INTEGER, before, 8, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Send(sent, 4, MPI_INTEGER, next, 8, MPI_COMM_WORLD, ierror)
    call MPI_Waitsome(2, requests, length, some, statuses, ierror)
    call check(ierror == MPI_ERR_IN_STATUS .and. length == 1 .and. some(1) == 2, 'index of a failed request')
    call check(statuses(MPI_ERROR, 1) == MPI_ERR_TRUNCATE, 'failed request')

    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL, ierror)
    call own_callbacks(rank, ranks)
    call settings
    call arrays(rank, ranks)

    ! Fortran ignores the address of the buffer.
    apart = 7
    call MPI_Buffer_attach(room, 1600, ierror)
    call MPI_Buffer_detach(apart(2), length, ierror)
    call check(ierror == MPI_SUCCESS .and. length == 1600 .and. all(apart == 7), 'buffer')
    call MPI_Pcontrol(0)
    call MPI_F_sync_reg(got)
    bound = 1000
    bound = aint_add(bound, extent)
    call check(bound == 1016 .and. aint_diff(bound, extent) == 1000, 'addresses')
    call MPI_Initialized(flag, ierror)
    call check(flag .and. MPI_Wtime() >= begun, 'time')
    call MPI_Finalize(ierror)
    if (rank == 0) print '(a, i0, a)', 'facade: right on ', ranks, ' ranks'
end program
