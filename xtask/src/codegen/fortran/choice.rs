//! Choice buffers of `mpi_f08`, which come as C descriptors: the count and the datatype that belong
//! to each.

use super::argument::{Argument, Kind, Shape};
use super::selection::Selected;
use crate::codegen::entry::safe;

/// A buffer with its count and datatype, as indices of arguments.
struct Group {
    count: usize,
    datatype: usize,
}

/// Those of the buffer at a place, if it has any that a section can change.
fn group(s: &Selected<'_>, at: usize) -> Option<Group> {
    let is_integer = |a: &Argument| matches!(a.shape, Shape::Integer(_));
    let count = at + 1;
    let is_count = s
        .arguments
        .get(count)
        .is_some_and(|a| is_integer(a) && a.name.contains("count"));
    let computes = s.arguments.iter().any(|a| a.is_handle("MPI_Op"));
    let accumulates = s.function.chapter.name == "one_sided";
    if !is_count || (computes && !accumulates) {
        return None;
    }
    // Displacements may lie between.
    let rest = s.arguments.iter().enumerate().skip(count + 1);
    let mut rest = rest.skip_while(|(_, a)| a.is_array && is_integer(a));
    let (datatype, _) = rest.next().filter(|(_, a)| a.is_handle("MPI_Datatype"))?;
    Some(Group { count, datatype })
}

fn groups<'a>(s: &'a Selected<'_>) -> impl Iterator<Item = (&'a Argument, Group)> {
    let buffers = s.arguments.iter().enumerate();
    let buffers = buffers.filter(|(_, a)| a.shape == Shape::Buffer);
    buffers.filter_map(|(at, a)| Some((a, group(s, at)?)))
}

/// The buffer whose section decides this count.
pub fn section_of_count(s: &Selected<'_>, a: &Argument) -> Option<String> {
    let of = |g: &Group| s.arguments[g.count].name == a.name && !a.is_array;
    groups(s)
        .find(|(_, g)| of(g))
        .map(|(buffer, _)| safe(&buffer.name))
}

/// The buffer whose section decides this datatype.
pub fn section_of_type(s: &Selected<'_>, a: &Argument) -> Option<String> {
    let of = |g: &Group| s.arguments[g.datatype].name == a.name;
    groups(s)
        .find(|(_, g)| of(g))
        .map(|(buffer, _)| safe(&buffer.name))
}

/// The line that reads a descriptor, and the argument for C.
pub fn buffer(s: &Selected<'_>, a: &Argument, name: &str) -> (String, String) {
    if takes_address_only(s) {
        return (String::new(), format!("base_of({name})"));
    }
    let comm = s.arguments.iter().find(|a| a.is_handle("MPI_Comm"));
    let comm = comm.map_or("WORLD".to_owned(), |c| {
        format!("COMM.handle(*{})", safe(&c.name))
    });
    let refused = format!(
        "Err(why) => return why.report({:?}, {comm}, ierror),",
        s.function.name
    );
    // Elsewhere than at the root the program may give any section, with any count and datatype.
    let (at_root, of_root) = match is_of_root(s, a) {
        true => ("_at_root", ", COMM.handle(*comm), *root"),
        false => ("", ""),
    };
    let found = groups(s).find(|(buffer, _)| buffer.name == a.name);
    let Some((_, g)) = found else {
        let read = format!("side_by_side{at_root}({name}{of_root})");
        let line = format!("    let c_{name} = match {read} {{ Ok(at) => at, {refused} }};\n");
        return (line, format!("c_{name}"));
    };
    let (count, datatype) = (&s.arguments[g.count], &s.arguments[g.datatype]);
    let number = match (count.is_array, &count.shape) {
        (true, _) => "0".to_owned(),
        (false, Shape::Integer(Kind::Default)) => format!("i64::from(*{})", count.name),
        (false, _) => format!("*{} as i64", count.name),
    };
    let read = format!(
        "section{at_root}({name}, {number}, TYPE.handle(*{}), BufferLayout::{}{of_root})",
        safe(&datatype.name),
        layout(s, a, count)
    );
    let line = format!("    let s_{name} = match {read} {{ Ok(s) => s, {refused} }};\n");
    (line, format!("s_{name}.address"))
}

/// Whether the buffer means something at the root of a collective only.
fn is_of_root(s: &Selected<'_>, buffer: &Argument) -> bool {
    let has_root = s.arguments.iter().any(|a| a.name == "root");
    let name = s.function.name.to_lowercase();
    let needed = if name.contains("scatter") {
        "sendbuf"
    } else {
        "recvbuf"
    };
    has_root && buffer.name == needed
}

/// Whether the address alone counts.
fn takes_address_only(s: &Selected<'_>) -> bool {
    let name = s.function.name.as_str();
    ["MPI_Get_address", "MPI_Win_detach"].contains(&name) || name.ends_with("_end")
}

fn layout(s: &Selected<'_>, buffer: &Argument, count: &Argument) -> &'static str {
    if count.is_array {
        return "Apart";
    }
    let name = s.function.name.to_lowercase();
    let of_all = match buffer.name.as_str() {
        "recvbuf" => name.contains("gather") || name.contains("alltoall"),
        "sendbuf" => name.contains("scatter") || name.contains("alltoall"),
        _ => false,
    };
    if of_all { "Blocks" } else { "Whole" }
}
