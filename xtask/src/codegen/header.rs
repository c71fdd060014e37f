//! `include/mpi.h`.

use std::fmt::Write as _;

use anyhow::{Result, bail};

use super::constants::{HANDLES, TOOL_ENUMS, TOOL_HANDLES};
use super::model::{Constant, Function, Model, Param};

/// The text before this library's own functions.
const EXTENSIONS: &str = r"
/* Not in the standard: registered memory as the state that a job, started again, continues from. Errors are
   returned and call no error handler. Between MPI_Init and MPI_Finalize, where regions may be registered at
   any time.

   MPIX_Register_region: memory that belongs to the state, under a number by which it is found again.
   MPIX_Checkpoint, by all ranks of MPI_COMM_WORLD: stores the registered memory of all (mpirun --images DIR), and
   has the job's images taken; returns when that is done. MPI_ERR_IO, or MPI_ERR_OTHER when it was aborted: what was
   stored before stands.
   MPI_Rejoin (MPIX_Rejoin), by all ranks of MPI_COMM_WORLD: fills the registered memory from the newest checkpoint
   that all ranks can use (mpirun --images DIR --restart); MPI_ERR_NO_SUCH_FILE when there is none. In a job
   that was started without --restart any rank may call alone: a process that came back from an image, or has moved,
   is in the job already. */
";

/// Renders the header.
pub fn render(model: &Model) -> Result<String> {
    let mut out = format!(
        "/* mpi.h: the MPI-5.0 standard ABI. {}: do not edit. */\n\n\
         #ifndef MPI_H_INCLUDED\n#define MPI_H_INCLUDED\n\n#include <stdint.h>\n\n\
         #if defined(__cplusplus)\nextern \"C\" {{\n#endif\n\n\
         /* Set by this implementation, for programs that want to know. */\n#define REJOIN_MPI 1\n\n",
        super::mark::MARK
    );
    types(&mut out)?;
    constants(&mut out, model)?;
    callbacks(&mut out, model)?;
    callback_constants(&mut out, model)?;
    for (prefix, title) in [("", "Functions."), ("P", "The profiling names.")] {
        writeln!(out, "\n/* {title} */")?;
        for function in model.standard() {
            out.push_str(&prototype(prefix, function));
        }
    }
    out.push_str(
        "\n/* Removed from the standard in MPI-3.0 and here only so that old programs link: new programs\n   \
         should not use them. */\ntypedef MPI_Comm_errhandler_function MPI_Handler_function;\n",
    );
    for prefix in ["", "P"] {
        for function in model.removed() {
            out.push_str(&prototype(prefix, function));
        }
    }
    out.push_str(EXTENSIONS);
    for prefix in ["", "P"] {
        for function in model.extensions() {
            out.push_str(&prototype(prefix, function));
        }
    }
    out.push_str("\n#if defined(__cplusplus)\n}\n#endif\n\n#endif /* MPI_H_INCLUDED */\n");
    Ok(out)
}

fn types(out: &mut String) -> Result<()> {
    out.push_str(
        "typedef intptr_t MPI_Aint;\ntypedef int64_t MPI_Offset;\ntypedef int64_t MPI_Count;\n\n\
         typedef struct MPI_Status {\n    int MPI_SOURCE;\n    int MPI_TAG;\n    int MPI_ERROR;\n    \
         int MPI_internal[5];\n} MPI_Status;\n\n",
    );
    for name in HANDLES.iter().chain(&TOOL_HANDLES) {
        writeln!(
            out,
            "typedef struct MPI_ABI_{} *{name};",
            &name["MPI_".len()..]
        )?;
    }
    out.push('\n');
    Ok(())
}

fn constants(out: &mut String, model: &Model) -> Result<()> {
    for c in &model.constants {
        if is_callback(c) || TOOL_ENUMS.contains(&c.ctype.as_str()) {
            continue;
        }
        let value = match c.ctype.as_str() {
            "alias" => c.value.clone(),
            "int" if c.value.starts_with('-') => format!("({})", c.value),
            "int" => c.value.clone(),
            t if t.ends_with('*') => format!("(({}) {})", spaced(t), c.value),
            t => format!("(({t}) {})", c.value),
        };
        writeln!(out, "#define {} {value}", c.name)?;
    }
    out.push('\n');
    for name in TOOL_ENUMS {
        let members: Vec<String> = model
            .constants
            .iter()
            .filter(|c| c.ctype == name)
            .map(|c| format!("    {} = {}", c.name, c.value))
            .collect();
        if members.is_empty() {
            bail!("no constants of the enumeration {name}");
        }
        writeln!(
            out,
            "typedef enum {name} {{\n{}\n}} {name};",
            members.join(",\n")
        )?;
    }
    Ok(())
}

fn callbacks(out: &mut String, model: &Model) -> Result<()> {
    out.push_str("\n/* Functions of the program that the library calls. */\n");
    for c in &model.callbacks {
        match &c.alias {
            Some(target) => writeln!(out, "typedef {target} {};", c.name)?,
            None => out.push_str(&wrapped(
                &format!("typedef {} {}(", c.returns, c.name),
                &c.params,
            )),
        }
    }
    out.push('\n');
    Ok(())
}

fn callback_constants(out: &mut String, model: &Model) -> Result<()> {
    for c in model.constants.iter().filter(|c| is_callback(c)) {
        writeln!(
            out,
            "#define {} (({}) {})",
            c.name,
            spaced(&c.ctype),
            c.value
        )?;
    }
    Ok(())
}

fn is_callback(c: &Constant) -> bool {
    c.ctype.ends_with("function*") || c.ctype.ends_with("function_c*")
}

fn spaced(pointer: &str) -> String {
    let at = pointer.find('*').unwrap_or(pointer.len());
    format!("{} {}", &pointer[..at], &pointer[at..])
}

fn prototype(prefix: &str, f: &Function) -> String {
    wrapped(&format!("{} {prefix}{}(", f.returns, f.name), &f.params)
}

/// A C prototype as text, such as the entry points' documentation shows it.
pub fn declaration(f: &Function) -> String {
    wrapped(&format!("{} {}(", f.returns, f.name), &f.params)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// `head` and the parameters, broken into lines of at most 100 columns.
fn wrapped(head: &str, params: &[Param]) -> String {
    if params.is_empty() {
        return format!("{head}void);\n");
    }
    let mut out = String::new();
    let mut line = head.to_owned();
    for (i, p) in params.iter().enumerate() {
        let last = i + 1 == params.len();
        let text = format!("{}{}", p.decl, if last { ");" } else { "," });
        let gap = usize::from(!line.ends_with('('));
        if line.len() + gap + text.len() > 100 {
            out.push_str(&line);
            line = format!("\n    {text}");
        } else {
            if gap == 1 {
                line.push(' ');
            }
            line.push_str(&text);
        }
    }
    out.push_str(&line);
    out.push('\n');
    out
}
