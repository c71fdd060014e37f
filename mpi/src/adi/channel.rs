//! The channel device behind the interface: its errors are those of this layer.
//!
//! The calls are inlined where the device's are: nothing stands between both.

use super::device_interface::{Adi, NotifyFn, SendAttempt};
use crate::error::{Result, as_error};
use rejoin_channel_table::{Epoch, Identity, Rank};
use rejoin_device::safe_point::Ask;
use rejoin_device::{
    Caller, Completion, Counters, Determinants, Device, Envelope, Fault, JobLocality, Mode, MsgId,
    Names, Pattern, Probe, ReqId, Rollback, SendOutcome,
};
use std::path::PathBuf;
use std::time::Duration;

/// Methods that the device has with the same arguments, and whose errors are mapped if they have
/// some.
macro_rules! as_device {
    ($(fn $name:ident(&self $(, $arg:ident: $of:ty)*) -> $back:ty;)*) => {
        $(#[inline]
        fn $name(&self $(, $arg: $of)*) -> $back {
            Device::$name(self $(, $arg)*)
        })*
    };
    ($(fn $name:ident(&mut self $(, $arg:ident: $of:ty)*) -> $back:ty;)*) => {
        $(#[inline]
        fn $name(&mut self $(, $arg: $of)*) -> $back {
            Device::$name(self $(, $arg)*)
        })*
    };
    (fallible $(fn $name:ident(&mut self $(, $arg:ident: $of:ty)*) -> $back:ty;)*) => {
        $(#[inline]
        fn $name(&mut self $(, $arg: $of)*) -> $back {
            Device::$name(self $(, $arg)*).map_err(as_error)
        })*
    };
}

impl Adi for Device {
    as_device! {
        fn identity(&self) -> Identity;
        fn rank(&self) -> Rank;
        fn size(&self) -> u32;
        fn locality(&self) -> JobLocality;
        fn reduces_by_hosts(&self) -> bool;
        fn expects_threads(&self) -> bool;
        fn appnum(&self) -> Option<u32>;
        fn is_complete(&self, r: ReqId) -> bool;
        fn moved(&self) -> u64;
        fn owes_ack(&self) -> bool;
        fn awaits_links(&self) -> bool;
        fn takes_images(&self) -> bool;
        fn epoch(&self) -> Epoch;
        fn rollbacks(&self) -> &[Rollback];
        fn horizon(&self) -> Epoch;
        fn file_undo_limit(&self) -> u64;
        fn checkpointed(&self, after: Epoch) -> Option<bool>;
        fn regions_number(&self) -> Option<Epoch>;
        fn regions_before(&self, epoch: Epoch) -> Option<Option<Epoch>>;
        fn is_flushed(&self) -> bool;
        fn all_finalized(&self) -> bool;
    }
    as_device! {
        fn poll(&mut self, r: ReqId) -> Option<Completion>;
        fn cancel(&mut self, r: ReqId) -> ();
        fn probe(&mut self, pat: &Pattern) -> Option<Probe>;
        fn mprobe(&mut self, pat: &Pattern) -> Option<(MsgId, Probe)>;
        fn set_names(&mut self, names: Names) -> ();
        fn withdraw(&mut self) -> ();
        fn abort(&mut self, code: i32) -> !;
        fn determinants(&mut self) -> Option<&mut Determinants>;
        fn links_to_wait_for(&mut self, waited: Duration) -> Option<Duration>;
    }
    as_device! { fallible
        fn progress(&mut self, hint: Option<ReqId>) -> Result<bool>;
        fn look(&mut self, hint: Option<ReqId>) -> Result<bool>;
        fn wait(&mut self, hint: Option<ReqId>, deadline: Option<Duration>) -> Result<()>;
        fn write_acks(&mut self) -> Result<()>;
        fn poll_occasionally(&mut self) -> Result<()>;
        fn link_lost(&mut self, to: Rank, fault: Fault) -> Result<()>;
        fn await_links(&mut self) -> Result<()>;
        fn safe_point(&mut self) -> Result<()>;
        fn meet_signal(&mut self, number: u32) -> Result<()>;
        fn accept_checkpoints(&mut self, ask: Ask) -> Result<()>;
        fn request_checkpoint(&mut self) -> Result<Epoch>;
        fn request_regions_number(&mut self, above: Epoch) -> Result<()>;
        fn regions_stored(&mut self, epoch: Epoch) -> Result<()>;
        fn begin_flush(&mut self) -> Result<()>;
        fn announce_finalize(&mut self) -> Result<Counters>;
        fn leave_job(&mut self, counters: Counters) -> Result<()>;
    }

    fn local_host(&self) -> String {
        Device::local_host(self).to_owned()
    }

    fn host_of(&self, rank: Rank) -> String {
        Device::host_of(self, rank).to_owned()
    }

    fn state_folder(&self) -> (Option<PathBuf>, Option<u32>) {
        let settings = self.settings();
        let newest = settings
            .restart
            .then_some(settings.newest.unwrap_or(u32::MAX));
        (settings.folder.as_ref().map(PathBuf::from), newest)
    }

    fn waker(&self) -> NotifyFn {
        let waker = Device::waker(self);
        Box::new(move || waker.wake())
    }

    fn begin_finalize(&mut self) -> Result<()> {
        Device::begin_finalize(self);
        Ok(())
    }

    #[cfg(test)]
    fn set_determinants(&mut self, log: Determinants) {
        Device::set_determinants(self, log);
    }

    #[inline]
    unsafe fn isend(
        &mut self,
        to: Rank,
        env: Envelope,
        (buf, len): (*const u8, usize),
        mode: Mode,
        attempt: SendAttempt,
    ) -> Result<ReqId> {
        // SAFETY: the caller's promise.
        let started = unsafe {
            match attempt {
                SendAttempt::WouldBlock => self.continue_isend(to, env, buf, len, mode),
                SendAttempt::Sent | SendAttempt::Untried => {
                    Device::isend(self, to, env, buf, len, mode)
                }
            }
        };
        started.map_err(as_error)
    }

    #[inline]
    unsafe fn send(
        &mut self,
        to: Rank,
        env: Envelope,
        (buf, len): (*const u8, usize),
        attempt: SendAttempt,
    ) -> Result<Option<ReqId>> {
        // SAFETY: the caller's promise.
        let started = unsafe {
            match attempt {
                SendAttempt::WouldBlock => self.continue_send(to, env, buf, len),
                SendAttempt::Sent | SendAttempt::Untried => Device::send(self, to, env, buf, len),
            }
        };
        started.map_err(as_error)
    }

    #[inline]
    unsafe fn irecv(&mut self, pat: Pattern, buf: *mut u8, len: usize) -> Result<ReqId> {
        // SAFETY: the caller's promise.
        unsafe { Device::irecv(self, pat, buf, len) }.map_err(as_error)
    }

    #[inline]
    unsafe fn imrecv(&mut self, msg: MsgId, buf: *mut u8, len: usize) -> Result<ReqId> {
        // SAFETY: the caller's promise.
        unsafe { Device::imrecv(self, msg, buf, len) }.map_err(as_error)
    }

    #[inline(always)]
    unsafe fn try_send(
        &mut self,
        to: Rank,
        env: &Envelope,
        (buf, len): (*const u8, usize),
        caller: Caller,
    ) -> SendOutcome {
        // SAFETY: the caller's promise.
        unsafe { Device::try_send(self, to, env, buf, len, caller) }
    }

    #[inline]
    unsafe fn try_counted_send(
        &mut self,
        to: Rank,
        env: &Envelope,
        (buf, len): (*const u8, usize),
        caller: Caller,
    ) -> SendOutcome {
        // SAFETY: the caller's promise.
        unsafe { Device::try_counted_send(self, to, env, buf, len, caller) }
    }

    #[inline(always)]
    unsafe fn try_recv(&mut self, pat: &Pattern, buf: *mut u8, len: usize) -> Option<Completion> {
        // SAFETY: the caller's promise.
        unsafe { Device::try_recv(self, pat, buf, len) }
    }

    #[inline(always)]
    unsafe fn try_post(&mut self, pat: &Pattern, buf: *mut u8, len: usize) -> Option<ReqId> {
        // SAFETY: the caller's promise.
        unsafe { Device::try_post(self, pat, buf, len) }
    }

    #[inline(always)]
    fn poll_whole(&mut self, r: ReqId) -> Option<Completion> {
        Device::poll_whole(self, r)
    }
}
