//! A restored process: the rank again, as it was at the image.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use super::clone_context::CloneContext;
use super::imager::Imager;
use super::taken::Restored;
use super::wire::RestoreMessage;
use crate::error::Caveat;
use crate::manifest::LateMemory;
use crate::{checkpoint_request, sys};

/// Sets everything up but the signal mask.
pub(super) fn begin(
    imager: &mut Imager,
    context: &CloneContext,
    message: RestoreMessage,
) -> Restored {
    die_with(imager.settings.manager);
    imager.twins.clear();
    checkpoint_request::rebind();

    let block = imager.settings.block;
    let raised = message
        .descriptors
        .iter()
        .map(|&fd| raise(fd, block))
        .collect();
    let message = RestoreMessage {
        descriptors: raised,
        ..message
    };
    let ([input, output, errors], rest) = message.sorted();
    if let Some(input) = input {
        if let Ok(flags) = sys::control(0, libc::F_GETFL, 0) {
            let _ = sys::control(input, libc::F_SETFL, flags);
        }
        let _ = sys::duplicate(input, 0, false);
    }
    let lost = context.streams.install([output, errors], &mut imager.pipes);
    [input, output, errors]
        .into_iter()
        .flatten()
        .for_each(sys::close);
    // SAFETY: each number is open, of this process alone, and used nowhere else from here on.
    let fds = rest
        .iter()
        .map(|&fd| unsafe { OwnedFd::from_raw_fd(fd) })
        .collect();
    let cut = message.cut();
    let mut caveats: Vec<_> = lost
        .into_iter()
        .map(|fd| Caveat::StreamLost { fd })
        .collect();
    caveats.extend(context.manifest.restore(&cut));
    imager.wiped.mark(true);
    Restored {
        body: message.body,
        fds,
        caveats,
        late: LateMemory::default(),
    }
}

/// Moves a received descriptor into the block. It arrived at the lowest free number, and those
/// belong to the program.
fn raise(fd: RawFd, block: RawFd) -> RawFd {
    match sys::raise(fd, block) {
        Ok(raised) => {
            sys::close(fd);
            raised
        }
        Err(_) => fd,
    }
}

/// Makes the kernel end this process with its manager. Only a direct child of the manager may ask
/// for that; the parent of another process ends in regular operation.
fn die_with(manager: i32) {
    if manager <= 0 || sys::parent() != manager {
        return;
    }
    // SAFETY: touches no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    if sys::parent() != manager {
        sys::exit(0); // It ended in between.
    }
}
