! What a façade for Fortran translates: integers of handles, statuses, addresses that stand for
! something, texts with blanks, indices from 1, operations of the program and attributes.
module parts
    implicit none
    include 'mpif.h'
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
end module

program facade
    use parts
    implicit none
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

    ! Fortran ignores the address of the buffer.
    apart = 7
    call MPI_Buffer_attach(room, 1600, ierror)
    call MPI_Buffer_detach(apart(2), length, ierror)
    call check(ierror == MPI_SUCCESS .and. length == 1600 .and. all(apart == 7), 'buffer')
    call MPI_Pcontrol(0)
    call MPI_F_sync_reg(got)
    bound = 1000
    bound = MPI_Aint_add(bound, extent)
    call check(bound == 1016 .and. MPI_Aint_diff(bound, extent) == 1000, 'addresses')
    call MPI_Initialized(flag, ierror)
    call check(flag .and. MPI_Wtime() >= begun, 'time')
    call MPI_Finalize(ierror)
    if (rank == 0) print '(a, i0, a)', 'facade: right on ', ranks, ' ranks'
end program
