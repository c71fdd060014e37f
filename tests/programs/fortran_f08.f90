! The module mpi_f08: handles and statuses as types, error codes that are left out, sections of arrays
! as buffers, large counts, functions of the program, attributes that C and Fortran share.
module helpers
    use mpi_f08
    use, intrinsic :: iso_c_binding
    implicit none
    integer :: deleted = 0, handled = 0
    ! The functions of C, as a library in C calls them.
    interface
        integer(c_int) function c_get_attr(comm, key, value, flag) bind(C, name="MPI_Comm_get_attr")
            import :: c_int, c_intptr_t, c_ptr
            integer(c_intptr_t), value :: comm
            integer(c_int), value :: key
            type(c_ptr) :: value
            integer(c_int) :: flag
        end function
        integer(c_int) function c_set_attr(comm, key, value) bind(C, name="MPI_Comm_set_attr")
            import :: c_int, c_intptr_t
            integer(c_intptr_t), value :: comm, value
            integer(c_int), value :: key
        end function
    end interface
contains
    subroutine check(right, what)
        logical, intent(in) :: right
        character(len=*), intent(in) :: what
        if (.not. right) then
            print *, 'wrong: ', what
            call MPI_Abort(MPI_COMM_WORLD, 3)
        end if
    end subroutine
    subroutine add_twice(from, into, count, datatype)
        type(c_ptr), value :: from, into
        integer :: count
        type(MPI_Datatype) :: datatype
        integer, pointer :: f(:), i(:)
        call c_f_pointer(from, f, [count])
        call c_f_pointer(into, i, [count])
        call check(datatype == MPI_INTEGER, 'datatype of an operation')
        i = i + f
    end subroutine
    subroutine add_many(from, into, count, datatype)
        type(c_ptr), value :: from, into
        integer(MPI_COUNT_KIND) :: count
        type(MPI_Datatype) :: datatype
        integer, pointer :: f(:), i(:)
        call c_f_pointer(from, f, [count])
        call c_f_pointer(into, i, [count])
        i = i + f
    end subroutine
    subroutine on_delete(comm, key, value, state, ierror)
        type(MPI_Comm) :: comm
        integer :: key, ierror
        integer(MPI_ADDRESS_KIND) :: value, state
        deleted = deleted + int(value - state)
        ierror = MPI_SUCCESS
    end subroutine
    subroutine on_error(comm, code)
        type(MPI_Comm) :: comm
        integer :: code, class
        call MPI_Error_class(code, class)
        call check(comm == MPI_COMM_SELF .and. class == MPI_ERR_BUFFER, 'error handler')
        handled = handled + 1
    end subroutine
end module

program new_forms
    use helpers
    implicit none
    integer :: ranks, rank, next, before
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    next = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)
    call check(MPI_SUBARRAYS_SUPPORTED, 'sections are supported')
    call handles
    call sections
    call sections_of_collectives
    call sections_of_others
    call refused_sections
    call buffers
    call persistent
    call large_counts
    call callbacks
    call attributes
    if (rank == 0) print '(a, i0, a)', 'fortran_f08: right on ', ranks, ' ranks'
    call MPI_Finalize()
contains
    subroutine handles
        type(MPI_Comm) :: part
        type(MPI_Request) :: requests(2)
        type(MPI_Status) :: status, both(2)
        type(MPI_Info) :: info
        integer :: got, number, old(MPI_STATUS_SIZE), ierror
        character(len=MPI_MAX_OBJECT_NAME) :: name
        character(len=5) :: value
        logical :: flag
        call check(MPI_COMM_WORLD /= MPI_COMM_SELF .and. MPI_INFO_NULL == MPI_INFO_NULL, 'comparison')
        call MPI_Comm_dup(MPI_COMM_WORLD, part)
        call MPI_Comm_set_name(part, 'of its own', ierror)
        call check(ierror == MPI_SUCCESS, 'error code')
        call MPI_Comm_get_name(part, name, number)
        call check(name == 'of its own' .and. number == 10, 'name')
        call MPI_Irecv(got, 1, MPI_INTEGER, before, 4, part, requests(1))
        call MPI_Isend(rank, 1, MPI_INTEGER, next, 4, part, requests(2))
        call MPI_Waitall(2, requests, both)
        call check(both(1)%MPI_SOURCE == before .and. both(1)%MPI_TAG == 4 .and. got == before, 'statuses')
        call check(all([requests(1) == MPI_REQUEST_NULL, requests(2) == MPI_REQUEST_NULL]), 'null requests')
        call MPI_Sendrecv(rank, 1, MPI_INTEGER, next, 5, got, 1, MPI_INTEGER, before, 5, part, status)
        call MPI_Get_count(status, MPI_INTEGER, number)
        call check(number == 1, 'count')
        call MPI_Status_f082f(status, old)
        call check(old(MPI_SOURCE) == before .and. old(MPI_TAG) == 5, 'status as integers')
        call MPI_Sendrecv(rank, 1, MPI_INTEGER, next, 5, got, 1, MPI_INTEGER, before, 5, part, MPI_STATUS_IGNORE)
        call MPI_Test(requests(1), flag, MPI_STATUS_IGNORE)
        call check(flag, 'test of nothing')
        call MPI_Comm_free(part)
        call check(part == MPI_COMM_NULL, 'communicator is gone')
        call MPI_Info_create(info)
        call MPI_Info_set(info, 'key', 'value')
        call MPI_Info_get(info, 'key', 5, value, flag)
        call check(flag .and. value == 'value', 'info')
        call MPI_Info_free(info)
    end subroutine

    ! Strided elements go to strided elements, in the order of Fortran.
    subroutine sections
        integer :: from(8, 9), into(8, 9), i, packed(40), place, flat(12)
        integer, asynchronous :: later(8, 9)
        type(MPI_Request) :: requests(2)
        character(len=3) :: words(6), others(6)
        complex :: values(4), got(4)
        from = reshape([(i, i = 1, 72)], [8, 9]) + 100 * rank
        into = 0
        call MPI_Sendrecv(from(2:8:3, 1:9:4), 9, MPI_INTEGER, next, 1, into(1:5:2, 2:4), 9, MPI_INTEGER, &
            before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call check(all(into(1:5:2, 2:4) - 100 * before == reshape([2, 5, 8, 34, 37, 40, 66, 69, 72], [3, 3])), &
            'section')
        call check(sum(into) == sum(into(1:5:2, 2:4)), 'between the elements')
        ! Part of a section, into elements side by side.
        call MPI_Sendrecv(from(2:8:3, 1:9:4), 5, MPI_INTEGER, next, 2, flat, 12, MPI_INTEGER, before, 2, &
            MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call check(all(flat(:5) - 100 * before == [2, 5, 8, 34, 37]), 'part of a section')
        later = 0
        call MPI_Irecv(later(8:1:-2, 1:3), 12, MPI_INTEGER, before, 3, MPI_COMM_WORLD, requests(1))
        call MPI_Isend(from(1:4, 1:5:2), 12, MPI_INTEGER, next, 3, MPI_COMM_WORLD, requests(2))
        call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
        call check(all(later(8:1:-2, 2) - 100 * before == [17, 18, 19, 20]), 'nonblocking section')
        call check(all(later(1:7:2, :) == 0), 'between the elements, later')
        ! Datatypes that are parts of an element, and that are several.
        words = ['one', 'two', 'six', 'ten', 'all', 'red']
        others = '...'
        call MPI_Sendrecv(words(1:5:2), 9, MPI_CHARACTER, next, 4, others(2:6:2), 9, MPI_CHARACTER, before, 4, &
            MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call check(all(others == ['...', 'one', '...', 'six', '...', 'all']), 'texts')
        values = [(cmplx(i, -i), i = 1, 4)]
        got = 0
        call MPI_Sendrecv(values%re, 4, MPI_REAL, next, 5, got%im, 4, MPI_REAL, before, 5, &
            MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call check(all(got%im == [1, 2, 3, 4]) .and. all(got%re == 0), 'parts of complex numbers')
        place = 0
        call MPI_Pack(from(1:7:2, 1:2), 8, MPI_INTEGER, packed, 160, place, MPI_COMM_WORLD)
        call check(place == 32, 'packed')
        call check(all(packed(:8) - 100 * rank == [1, 3, 5, 7, 9, 11, 13, 15]), 'packed section')
    end subroutine

    subroutine sections_of_collectives
        integer :: mine(4, 3), all_of(4, 2 * ranks), every(2 * ranks), i, counts(ranks), places(ranks)
        integer :: odd(2 * ranks)
        type(MPI_Request) :: request
        mine = reshape([(i, i = 1, 12)], [4, 3]) + 100 * rank
        all_of = 0
        ! Two columns of each rank, three elements of each.
        call MPI_Allgather(mine(1:3, 1:2), 6, MPI_INTEGER, all_of(2:4, :), 6, MPI_INTEGER, MPI_COMM_WORLD)
        call check(all(all_of(2:4, 2 * before + 2) - 100 * before == [5, 6, 7]), 'allgather of columns')
        call check(all(all_of(1, :) == 0), 'beside the columns')
        counts = 1
        places = [(ranks - i, i = 1, ranks)]
        odd = 0
        call MPI_Allgatherv(rank, 1, MPI_INTEGER, odd(1:2 * ranks:2), counts, places, MPI_INTEGER, MPI_COMM_WORLD)
        call check(odd(1) == ranks - 1 .and. all(odd(2::2) == 0), 'allgatherv')
        every = 0
        call MPI_Igather(mine(3:4, 3), 2, MPI_INTEGER, every, 2, MPI_INTEGER, 0, MPI_COMM_WORLD, request)
        call MPI_Wait(request, MPI_STATUS_IGNORE)
        if (rank == 0) call check(all(every(2 * ranks - 1:) == 100 * (ranks - 1) + [11, 12]), 'igather')
        call MPI_Bcast(mine(1:3:2, :), 6, MPI_INTEGER, 0, MPI_COMM_WORLD)
        call check(mine(1, 3) == 9 .and. mine(2, 3) == 10 + 100 * rank, 'bcast')
        call MPI_Allreduce(MPI_IN_PLACE, every, 2 * ranks, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    end subroutine

    ! What means something at the root only may be any section elsewhere, with any datatype.
    subroutine sections_of_others
        integer :: spare(6), all_of(2 * ranks), i, counts(ranks), places(ranks), got
        counts = 1
        places = [(i - 1, i = 1, ranks)]
        all_of = -1
        got = -1
        if (rank == 0) then
            call MPI_Gather(rank, 1, MPI_INTEGER, all_of(1::2), 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
            call check(all(all_of(1::2) == places) .and. all(all_of(2::2) == -1), 'gather at the root')
            call MPI_Scatterv(all_of(1::2), counts, places, MPI_INTEGER, got, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
            call MPI_Reduce(rank, all_of(1), 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
            call check(all_of(1) == ranks * (ranks - 1) / 2, 'reduce at the root')
        else
            call MPI_Gather(rank, 1, MPI_INTEGER, spare(1::2), 99, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD)
            call MPI_Scatterv(spare(1::2), counts, places, MPI_DATATYPE_NULL, got, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
            call MPI_Reduce(rank, spare(1::2), 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
        end if
        call check(got == rank, 'scatterv')
    end subroutine

    ! The address of the library's own buffer is that of its constant.
    subroutine buffers
        type(c_ptr) :: place
        integer :: size, got
        call MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0)
        call MPI_Bsend(rank, 1, MPI_INTEGER, next, 6, MPI_COMM_WORLD)
        call MPI_Recv(got, 1, MPI_INTEGER, before, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call MPI_Buffer_detach(place, size)
        call check(got == before .and. c_associated(place, c_loc(MPI_BUFFER_AUTOMATIC)), 'automatic buffer')
    end subroutine

    ! Compilers know that MPI uses the variables between these calls.
    subroutine persistent
        integer :: sent(4), got(4), round
        type(MPI_Request) :: requests(2)
        call MPI_Recv_init(got, 4, MPI_INTEGER, before, 7, MPI_COMM_WORLD, requests(1))
        call MPI_Send_init(sent, 4, MPI_INTEGER, next, 7, MPI_COMM_WORLD, requests(2))
        do round = 1, 3
            sent = 100 * round + rank
            got = 0
            call MPI_Startall(2, requests)
            call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
            call check(all(got == 100 * round + before), 'persistent')
        end do
        call MPI_Request_free(requests(1))
        call MPI_Request_free(requests(2))
    end subroutine

    ! What no datatype describes is an error, and nothing is computed with it.
    subroutine refused_sections
        integer :: mine(6), sum(6), ierror, class
        type(MPI_Errhandler) :: handler
        mine = 1
        call MPI_Comm_create_errhandler(on_error, handler)
        call MPI_Comm_set_errhandler(MPI_COMM_SELF, handler)
        call MPI_Allreduce(mine(1:5:2), sum, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF, ierror)
        call MPI_Error_class(ierror, class)
        call check(class == MPI_ERR_BUFFER .and. handled == 1, 'operation on a section')
        call MPI_Send(mine(1:5:2), 4, MPI_INTEGER, 0, 0, MPI_COMM_SELF, ierror)
        call check(ierror == MPI_ERR_BUFFER .and. handled == 2, 'longer than the section')
        call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
        call MPI_Errhandler_free(handler)
    end subroutine

    subroutine large_counts
        integer(MPI_COUNT_KIND) :: number, size
        integer :: got(4)
        type(MPI_Datatype) :: four
        type(MPI_Status) :: status
        number = 4
        call MPI_Type_contiguous(number, MPI_INTEGER, four)
        call MPI_Type_commit(four)
        call MPI_Type_size(four, size)
        call check(size == 16, 'size')
        call MPI_Sendrecv([rank, 2, 3, 4], 1_MPI_COUNT_KIND, four, next, 1, got, number, MPI_INTEGER, &
            before, 1, MPI_COMM_WORLD, status)
        call MPI_Get_count(status, MPI_INTEGER, number)
        call check(number == 4 .and. got(1) == before, 'large count')
        call MPI_Type_free(four)
    end subroutine

    subroutine callbacks
        type(MPI_Op) :: op
        integer :: sum
        call MPI_Op_create(add_twice, .true., op)
        call MPI_Allreduce(rank, sum, 1, MPI_INTEGER, op, MPI_COMM_WORLD)
        call check(sum == ranks * (ranks - 1) / 2, 'own operation')
        call MPI_Op_free(op)
        call MPI_Op_create_c(add_many, .true., op)
        call MPI_Allreduce(rank, sum, 1_MPI_COUNT_KIND, MPI_INTEGER, op, MPI_COMM_WORLD)
        call check(sum == ranks * (ranks - 1) / 2, 'own operation with large counts')
        call MPI_Op_free(op)
    end subroutine

    ! What Fortran sets, C reads as a pointer to it; what C sets, Fortran reads as the pointer.
    subroutine attributes
        integer :: key
        integer(c_int) :: flag
        integer(c_intptr_t) :: world
        integer(MPI_ADDRESS_KIND) :: value
        integer(MPI_ADDRESS_KIND), pointer :: seen
        type(c_ptr) :: place
        logical :: is_there
        world = MPI_COMM_WORLD%MPI_VAL
        call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, key, 40_MPI_ADDRESS_KIND)
        call MPI_Comm_set_attr(MPI_COMM_WORLD, key, 42_MPI_ADDRESS_KIND)
        call check(c_get_attr(world, key, place, flag) == 0 .and. flag == 1, 'attribute in C')
        call c_f_pointer(place, seen)
        call check(seen == 42, 'value in C')
        call check(c_set_attr(world, key, 1040_c_intptr_t) == 0 .and. deleted == 2, 'attribute of C')
        call MPI_Comm_get_attr(MPI_COMM_WORLD, key, value, is_there)
        call check(is_there .and. value == 1040, 'value of C')
        call MPI_Comm_delete_attr(MPI_COMM_WORLD, key)
        call check(deleted == 1002, 'deleted')
        call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, value, is_there)
        call check(is_there .and. (value == 0 .or. value == 1), 'predefined attribute')
        call MPI_Comm_free_keyval(key)
    end subroutine
end program
