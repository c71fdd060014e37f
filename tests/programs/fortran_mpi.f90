! The module mpi: collectives, datatypes, communicators and attributes, errors, infos, topologies,
! persistent requests, operations of the program, generalized requests.
module parts
    use mpi
    use, intrinsic :: iso_c_binding
    implicit none
    integer :: handled = 0, freed = 0
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
    subroutine on_error(comm, code)
        integer :: comm, code, class, ierror
        call MPI_Error_class(code, class, ierror)
        call check(comm == MPI_COMM_SELF .and. class == MPI_ERR_RANK, 'error handler')
        handled = handled + 1
    end subroutine
    subroutine copy_more(comm, keyval, state, from, into, flag, ierror)
        integer :: comm, keyval, ierror
        integer(MPI_ADDRESS_KIND) :: state, from, into
        logical :: flag
        into = from + state
        flag = .true.
        ierror = MPI_SUCCESS
    end subroutine
    subroutine query(state, status, ierror)
        integer(MPI_ADDRESS_KIND) :: state
        integer :: status(MPI_STATUS_SIZE), ierror
        call MPI_Status_set_elements(status, MPI_INTEGER, int(state), ierror)
        call MPI_Status_set_cancelled(status, .false., ierror)
        status(MPI_SOURCE) = 3
    end subroutine
    subroutine free_it(state, ierror)
        integer(MPI_ADDRESS_KIND) :: state
        integer :: ierror
        freed = int(state)
        ierror = MPI_SUCCESS
    end subroutine
    subroutine cancel_it(state, complete, ierror)
        integer(MPI_ADDRESS_KIND) :: state
        logical :: complete
        integer :: ierror
        ierror = MPI_SUCCESS
    end subroutine
end module

program all_parts
    use parts
    implicit none
    integer :: ranks, rank, ierror
    call MPI_Init(ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
    call collectives
    call datatypes
    call communicators
    call errors
    call infos
    call topologies
    call persistent
    call generalized
    call sizes
    call memory
    call process_sets
    if (rank == 0) print '(a, i0, a)', 'fortran_mpi: right on ', ranks, ' ranks'
    call MPI_Finalize(ierror)
contains
    subroutine collectives
        integer :: op, most, i, counts(ranks), places(ranks), types(ranks)
        integer :: mine(2), all(2 * ranks), back(2 * ranks), request
        logical :: flag
        double precision :: sum
        character(len=4) :: text
        mine = [rank, -rank]
        call MPI_Allgather(mine, 2, MPI_INTEGER, all, 2, MPI_INTEGER, MPI_COMM_WORLD, ierror)
        call check(all(2 * ranks - 1) == ranks - 1, 'allgather')
        counts = 2
        places = [(2 * (ranks - i), i = 1, ranks)]
        call MPI_Allgatherv(mine, 2, MPI_INTEGER, all, counts, places, MPI_INTEGER, MPI_COMM_WORLD, ierror)
        call check(all(1) == ranks - 1, 'allgatherv')
        places = [(8 * (i - 1), i = 1, ranks)]
        types = MPI_INTEGER
        call MPI_Alltoallw(all, counts, places, types, back, counts, places, types, MPI_COMM_WORLD, ierror)
        call check(back(1) == ranks - 1 - rank, 'alltoallw')
        back = 0
        call MPI_Ialltoallw(all, counts, places, types, back, counts, places, types, MPI_COMM_WORLD, &
            request, ierror)
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
        call check(back(1) == ranks - 1 - rank, 'ialltoallw')
        call MPI_Alltoallw(MPI_IN_PLACE, counts, places, [-1], back, counts, places, types, &
            MPI_COMM_WORLD, ierror)
        call MPI_Op_create(larger, .true., op, ierror)
        call MPI_Allreduce(rank, most, 1, MPI_INTEGER, op, MPI_COMM_WORLD, ierror)
        call check(most == ranks - 1, 'own operation')
        flag = .false.
        call MPI_Op_commutative(op, flag, ierror)
        call check(flag, 'commutative')
        call MPI_Op_free(op, ierror)
        call check(op == MPI_OP_NULL, 'operation is gone')
        call MPI_Allreduce(rank == 0, flag, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierror)
        call check(flag, 'lor')
        call MPI_Allreduce(rank == 0, flag, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierror)
        call check(flag .eqv. ranks == 1, 'land')
        sum = rank
        if (rank == 0) then
            call MPI_Reduce(MPI_IN_PLACE, sum, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
            call check(sum == ranks * (ranks - 1) / 2, 'reduce in place')
        else
            call MPI_Reduce(sum, MPI_BOTTOM, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
        end if
        text = merge('text', '    ', rank == 0)
        call MPI_Bcast(text, 4, MPI_CHARACTER, 0, MPI_COMM_WORLD, ierror)
        call check(text == 'text', 'text')
    end subroutine

    subroutine datatypes
        integer :: row, block, pair, matrix(3, 4), got(3, 4), one, ints, addresses, types, combiner
        integer :: size, status(MPI_STATUS_SIZE), numbers(3), found(1), partner
        integer(MPI_ADDRESS_KIND) :: places(2), low, extent, first, none(1)
        type both
            sequence
            double precision :: x
            integer :: n, pad
        end type
        type(both) :: mine, other
        partner = ieor(rank, 1)
        if (partner == ranks) partner = rank
        matrix = reshape([(one, one = 1, 12)], [3, 4]) * (rank + 1)
        got = 0
        call MPI_Type_vector(4, 1, 3, MPI_INTEGER, row, ierror)
        call MPI_Type_commit(row, ierror)
        call MPI_Sendrecv(matrix(2, 1), 1, row, partner, 1, got(3, 1), 1, row, partner, 1, &
            MPI_COMM_WORLD, status, ierror)
        call check(all(got(3, :) == [2, 5, 8, 11] * (partner + 1)) .and. all(got(:2, :) == 0), 'row')
        call MPI_Type_create_subarray(2, [3, 4], [2, 2], [1, 1], MPI_ORDER_FORTRAN, MPI_INTEGER, block, ierror)
        call MPI_Type_commit(block, ierror)
        call MPI_Sendrecv(matrix, 1, block, partner, 2, got, 4, MPI_INTEGER, partner, 2, &
            MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
        call check(all(got(:, 1) == [5, 6, 8] * (partner + 1)), 'subarray')
        call MPI_Get_address(mine%x, places(1), ierror)
        call MPI_Get_address(mine%n, places(2), ierror)
        first = places(1)
        places = [0_MPI_ADDRESS_KIND, MPI_Aint_diff(places(2), first)]
        call MPI_Type_create_struct(2, [1, 1], places, [MPI_DOUBLE_PRECISION, MPI_INTEGER], pair, ierror)
        call MPI_Type_commit(pair, ierror)
        mine = both(rank + 0.5d0, rank, 0)
        call MPI_Sendrecv(mine, 1, pair, partner, 3, other, 1, pair, partner, 3, MPI_COMM_WORLD, status, ierror)
        call check(other%x == partner + 0.5d0 .and. other%n == partner, 'struct')
        call MPI_Type_get_extent(pair, low, extent, ierror)
        call MPI_Type_size(pair, size, ierror)
        call check(low == 0 .and. extent == 16 .and. size == 12, 'extent')
        call MPI_Type_get_envelope(row, ints, addresses, types, combiner, ierror)
        call check(ints == 3 .and. addresses == 0 .and. types == 1 .and. combiner == MPI_COMBINER_VECTOR, &
            'envelope')
        call MPI_Type_get_contents(row, ints, addresses, types, numbers, none, found, ierror)
        call check(all(numbers == [4, 1, 3]) .and. found(1) == MPI_INTEGER, 'contents')
        call MPI_Type_free(row, ierror)
        call MPI_Type_free(block, ierror)
        call MPI_Type_free(pair, ierror)
        call check(row == MPI_DATATYPE_NULL, 'datatype is gone')
        call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, one, ierror)
        call check(one == MPI_REAL8, 'size matched')
        call MPI_Get_address(MPI_BOTTOM, first, ierror)
        call check(first == 0, 'bottom')
    end subroutine

    subroutine communicators
        integer :: part, copy, group, few, ranks_of(2), keyval, length, request, result, peer
        integer(MPI_ADDRESS_KIND) :: value
        logical :: flag
        character(len=MPI_MAX_OBJECT_NAME) :: name
        call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, part, ierror)
        call MPI_Comm_set_name(part, 'a part  ', ierror)
        call MPI_Comm_get_name(part, name, length, ierror)
        call check(name == 'a part' .and. length == 6, 'name')
        call MPI_Comm_create_keyval(copy_more, MPI_COMM_NULL_DELETE_FN, keyval, 4_MPI_ADDRESS_KIND, ierror)
        call MPI_Comm_get_attr(part, keyval, value, flag, ierror)
        call check(.not. flag, 'no attribute')
        call MPI_Comm_set_attr(part, keyval, -1234567890123_MPI_ADDRESS_KIND, ierror)
        call MPI_Comm_dup(part, copy, ierror)
        call MPI_Comm_get_attr(copy, keyval, value, flag, ierror)
        call check(flag .and. value == -1234567890119_MPI_ADDRESS_KIND, 'copied attribute')
        call MPI_Comm_compare(part, copy, result, ierror)
        call check(result == MPI_CONGRUENT, 'congruent')
        call MPI_Comm_free(copy, ierror)
        copy = -7
        call MPI_Comm_idup(part, copy, request, ierror)
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
        call MPI_Comm_compare(part, copy, result, ierror)
        call check(result == MPI_CONGRUENT, 'idup')
        call MPI_Comm_free(copy, ierror)
        ! The others begin when the first has begun: its duplicate comes later.
        copy = -7
        if (rank /= 0) call MPI_Recv(few, 0, MPI_INTEGER, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
        call MPI_Comm_idup(MPI_COMM_WORLD, copy, request, ierror)
        do peer = 1, merge(ranks - 1, 0, rank == 0)
            call MPI_Send(few, 0, MPI_INTEGER, peer, 2, MPI_COMM_WORLD, ierror)
        end do
        do
            call MPI_Request_get_status(request, flag, MPI_STATUS_IGNORE, ierror)
            if (flag) exit
        end do
        call MPI_Comm_compare(MPI_COMM_WORLD, copy, result, ierror)
        call check(result == MPI_CONGRUENT, 'idup that is known to be complete')
        call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
        call MPI_Comm_free(copy, ierror)
        call MPI_Comm_free_keyval(keyval, ierror)
        call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierror)
        call check(flag .and. value >= 32767, 'upper bound of tags')
        call MPI_Comm_group(part, group, ierror)
        call MPI_Group_range_incl(group, 1, reshape([0, 0, 1], [3, 1]), few, ierror)
        call MPI_Group_size(few, length, ierror)
        call check(length == 1, 'range')
        call MPI_Group_translate_ranks(few, 1, [0], group, ranks_of, ierror)
        call check(ranks_of(1) == 0, 'translated')
        call MPI_Group_free(few, ierror)
        call MPI_Group_free(group, ierror)
        call MPI_Comm_free(part, ierror)
        call MPI_Comm_test_inter(MPI_COMM_WORLD, flag, ierror)
        call check(.not. flag, 'intra')
        call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, &
            0_MPI_ADDRESS_KIND, ierror)
        call MPI_Comm_set_attr(MPI_COMM_SELF, keyval, 9_MPI_ADDRESS_KIND, ierror)
        call MPI_Comm_dup(MPI_COMM_SELF, copy, ierror)
        call MPI_Comm_get_attr(copy, keyval, value, flag, ierror)
        call check(flag .and. value == 9, 'same attribute')
        call MPI_Comm_free(copy, ierror)
        call MPI_Comm_delete_attr(MPI_COMM_SELF, keyval, ierror)
    end subroutine

    subroutine errors
        integer :: handler, class, code, length
        character(len=MPI_MAX_ERROR_STRING) :: text
        call MPI_Comm_create_errhandler(on_error, handler, ierror)
        call MPI_Comm_set_errhandler(MPI_COMM_SELF, handler, ierror)
        call MPI_Send(rank, 1, MPI_INTEGER, 5, 1, MPI_COMM_SELF, ierror)
        call check(handled == 1, 'handled error')
        call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierror)
        call MPI_Errhandler_free(handler, ierror)
        call check(handler == MPI_ERRHANDLER_NULL, 'handler is gone')
        call MPI_Send(rank, -1, MPI_INTEGER, 0, 1, MPI_COMM_SELF, code)
        call MPI_Error_class(code, class, ierror)
        call check(class == MPI_ERR_COUNT .and. handled == 1, 'returned error')
        call MPI_Add_error_class(class, ierror)
        call MPI_Add_error_code(class, code, ierror)
        call MPI_Add_error_string(code, 'out of luck   ', ierror)
        call MPI_Error_string(code, text, length, ierror)
        call check(text == 'out of luck' .and. length == 11, 'text of an error')
    end subroutine

    subroutine infos
        integer :: info, copy, number, length
        character(len=8) :: value
        character(len=MPI_MAX_INFO_KEY) :: key
        logical :: flag, yes, no
        call MPI_Info_create(info, ierror)
        call MPI_Info_set(info, ' a key ', ' of value  ', ierror)
        call MPI_Info_get(info, 'a key', 8, value, flag, ierror)
        call check(flag .and. value == 'of value', 'info')
        call MPI_Info_get_valuelen(info, ' a key', length, flag, ierror)
        call check(flag .and. length == 8, 'length of a value')
        length = 8
        value = ' '
        call MPI_Info_get_string(info, ' a key', length, value, flag, ierror)
        call check(flag .and. value == 'of value' .and. length == 8, 'string')
        value = 'same'
        call MPI_Info_get(info, 'no key', 8, value, flag, ierror)
        call check(.not. flag .and. value == 'same', 'no key')
        call MPI_Info_get_nkeys(info, number, ierror)
        call MPI_Info_get_nthkey(info, 0, key, ierror)
        call check(number == 1 .and. key == 'a key', 'key')
        call MPI_Info_dup(info, copy, ierror)
        call MPI_Info_delete(copy, 'a key', ierror)
        call MPI_Info_free(copy, ierror)
        call MPI_Info_free(info, ierror)
        call check(info == MPI_INFO_NULL, 'info is gone')
        call MPI_Abi_get_fortran_info(info, ierror)
        call MPI_Info_get(info, 'mpi_integer_size', 8, value, flag, ierror)
        call check(flag .and. value == '4', 'size of integers')
        call MPI_Abi_set_fortran_info(info, number)
        call MPI_Error_class(number, length, ierror)
        call check(length == MPI_ERR_ABI, 'facts count once')
        call MPI_Abi_get_fortran_booleans(4, yes, no, flag, ierror)
        call check(flag .and. yes .and. .not. no, 'values of LOGICAL')
        call MPI_Info_free(info, ierror)
    end subroutine

    subroutine topologies
        integer :: cart, line, dims(2), coords(2), from, to, number, graph, next, before, i
        integer :: sources(1), weights(1), targets(1), index(ranks), edges(ranks), list(1)
        logical :: periods(2), flag
        dims = [0, 1]
        call MPI_Dims_create(ranks, 2, dims, ierror)
        call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .false., cart, ierror)
        call MPI_Cart_get(cart, 2, dims, periods, coords, ierror)
        call check(periods(1) .and. .not. periods(2) .and. coords(1) == rank, 'cartesian')
        call MPI_Cart_shift(cart, 0, 1, from, to, ierror)
        call check(to == mod(rank + 1, ranks), 'shift')
        call MPI_Cart_shift(cart, 1, 1, from, to, ierror)
        call check(from == MPI_PROC_NULL .and. to == MPI_PROC_NULL, 'edge')
        call MPI_Cart_sub(cart, [.true., .false.], line, ierror)
        call MPI_Comm_size(line, number, ierror)
        call check(number == ranks, 'line')
        call MPI_Comm_free(line, ierror)
        call MPI_Comm_free(cart, ierror)
        next = mod(rank + 1, ranks)
        before = mod(rank + ranks - 1, ranks)
        call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [before], [5], 1, [next], [6], &
            MPI_INFO_NULL, .false., graph, ierror)
        call MPI_Dist_graph_neighbors_count(graph, from, to, flag, ierror)
        call check(from == 1 .and. to == 1 .and. flag, 'neighbours')
        call MPI_Dist_graph_neighbors(graph, 1, sources, weights, 1, targets, list, ierror)
        call check(sources(1) == before .and. weights(1) == 5 .and. list(1) == 6, 'weights')
        call MPI_Comm_free(graph, ierror)
        call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [before], MPI_UNWEIGHTED, 1, [next], &
            MPI_UNWEIGHTED, MPI_INFO_NULL, .false., graph, ierror)
        call MPI_Dist_graph_neighbors_count(graph, from, to, flag, ierror)
        call check(.not. flag, 'no weights')
        call MPI_Comm_free(graph, ierror)
        index = [(i, i = 1, ranks)]
        edges = [(mod(i, ranks), i = 1, ranks)]
        call MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, .false., graph, ierror)
        call MPI_Graph_neighbors(graph, rank, 1, list, ierror)
        call check(list(1) == next, 'graph')
        call MPI_Comm_free(graph, ierror)
    end subroutine

    ! Compilers know that MPI uses the variables between these calls.
    subroutine persistent
        integer :: requests(2), got, sent, round, statuses(MPI_STATUS_SIZE, 2)
        logical :: flag
        call MPI_Recv_init(got, 1, MPI_INTEGER, mod(rank + ranks - 1, ranks), 1, MPI_COMM_WORLD, requests(1), ierror)
        call MPI_Send_init(sent, 1, MPI_INTEGER, mod(rank + 1, ranks), 1, MPI_COMM_WORLD, requests(2), ierror)
        do round = 1, 3
            sent = 100 * round + rank
            call MPI_Startall(2, requests, ierror)
            do
                call MPI_Testall(2, requests, flag, statuses, ierror)
                if (flag) exit
            end do
            call check(got == 100 * round + mod(rank + ranks - 1, ranks), 'persistent')
        end do
        call MPI_Request_free(requests(1), ierror)
        call MPI_Request_free(requests(2), ierror)
        call MPI_F_sync_reg(got)
        call check(all(requests == MPI_REQUEST_NULL), 'requests are gone')
    end subroutine

    subroutine generalized
        integer :: request, status(MPI_STATUS_SIZE), number
        logical :: flag
        type(MPI_Status) :: new
        call MPI_Grequest_start(query, free_it, cancel_it, 6_MPI_ADDRESS_KIND, request, ierror)
        call MPI_Test(request, flag, status, ierror)
        call check(.not. flag, 'not complete')
        call MPI_Grequest_complete(request, ierror)
        call MPI_Wait(request, status, ierror)
        call MPI_Get_elements(status, MPI_INTEGER, number, ierror)
        call check(number == 6 .and. freed == 6 .and. status(MPI_SOURCE) == 3, 'generalized request')
        call MPI_Status_f2f08(f_status=status, f08_status=new, ierror=ierror)
        call check(new%MPI_SOURCE == 3, 'status as a structure')
    end subroutine

    subroutine sizes
        integer :: size
        complex(8) :: table(2, 2)
        call MPI_Sizeof(table, size, ierror)
        call check(size == 16, 'sizeof')
        call MPI_Sizeof(1.0, size, ierror)
        call check(size == 4, 'sizeof a scalar')
    end subroutine

    subroutine memory
        integer(MPI_ADDRESS_KIND) :: address
        type(c_ptr) :: place
        double precision, pointer :: values(:)
        call MPI_Alloc_mem(80_MPI_ADDRESS_KIND, MPI_INFO_NULL, place, ierror)
        call c_f_pointer(place, values, [10])
        values = rank
        call MPI_Allreduce(MPI_IN_PLACE, values, 10, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierror)
        call check(all(values == ranks - 1), 'memory')
        call MPI_Free_mem(values, ierror)
        call MPI_Alloc_mem(80_MPI_ADDRESS_KIND, MPI_INFO_NULL, address, ierror)
        call check(address /= 0, 'address of memory')
        call c_f_pointer(transfer(address, place), values, [10])
        call MPI_Free_mem(values, ierror)
    end subroutine

    subroutine process_sets
        integer :: session, number, length, i, group, size
        character(len=MPI_MAX_PSET_NAME_LEN) :: name
        logical :: is_there
        call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session, ierror)
        call MPI_Session_get_num_psets(session, MPI_INFO_NULL, number, ierror)
        is_there = .false.
        do i = 0, number - 1
            length = 0
            call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, length, name, ierror)
            call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, length, name, ierror)
            call check(length == len_trim(name), 'length of a name')
            is_there = is_there .or. name == 'mpi://WORLD'
        end do
        call check(is_there, 'process set')
        call MPI_Group_from_session_pset(session, 'mpi://WORLD', group, ierror)
        call MPI_Group_size(group, size, ierror)
        call check(size == ranks, 'group of a process set')
        call MPI_Group_free(group, ierror)
        call MPI_Session_finalize(session, ierror)
        call check(session == MPI_SESSION_NULL, 'session is gone')
    end subroutine
end program
