//! What an open file has beside its contents: size, view, hints, pointers, atomicity (MPI-5.0
//! §14.2, §14.3, §14.4, §14.6).

use std::rc::Rc;

use super::access_mode::AccessMode;
use super::agreement::{FileCall, agree, check_same};
use super::file_view::{FileView, ViewArguments};
use super::hints::HINT_BYTES;
use super::mpi_file::MpiFile;
use crate::coll::{CallKind, CallState, Ctx, next_tag};
use crate::datatype::Datatype;
use crate::error::{Error, ErrorClass, Result};
use crate::info::Info;

/// Where a seek counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekFrom {
    /// `MPI_SEEK_SET`: the beginning of the view.
    Start,
    /// `MPI_SEEK_CUR`: the pointer.
    Current,
    /// `MPI_SEEK_END`: the end of the file.
    End,
}

fn wrong(text: String) -> Error {
    Error::new(ErrorClass::Arg, text)
}

impl MpiFile {
    /// Runs a collective call of the file to its end.
    fn together<T>(&self, body: impl AsyncFnOnce(&FileCall<'_>) -> Result<T>) -> Result<T> {
        let state = CallState::new(&self.mpi);
        let call = Ctx::of_all(&self.comm, next_tag(&self.comm, CallKind::Blocking), &state);
        state.wait(body(&call))
    }

    /// A size that all ranks give.
    fn change_size(&self, size: i64, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let check = || {
            self.check_no_split()?;
            self.mode.check_write()?;
            self.mode.check_not_sequential()?;
            match size {
                0.. => Ok(()),
                _ => Err(wrong(format!("the size {size} is negative"))),
            }
        };
        self.together(async |call| {
            agree(call, check()).await?;
            check_same(call, "the size", &size.to_le_bytes()).await?;
            let done = if call.rank() == 0 { act() } else { Ok(()) };
            agree(call, done).await
        })
    }

    /// `MPI_File_set_size`, in bytes. Collective.
    ///
    /// # Errors
    /// On all ranks: `ReadOnly`, `NotSame`, `Arg`, or what the system says.
    pub fn set_size(&self, size: i64) -> Result<()> {
        self.change_size(size, || self.storage.set_size(size))?;
        self.storage.settle(size);
        Ok(())
    }

    /// `MPI_File_preallocate`, in bytes. Collective.
    ///
    /// # Errors
    /// Those of [`MpiFile::set_size`].
    pub fn preallocate(&self, size: i64) -> Result<()> {
        self.change_size(size, || self.storage.allocate(size))
    }

    /// `MPI_File_sync`. Collective.
    ///
    /// # Errors
    /// What the system says; on all ranks.
    pub fn sync(&self) -> Result<()> {
        self.together(async |call| {
            let synced = self.check_no_split().and_then(|()| self.storage.sync());
            agree(call, synced).await
        })
    }

    /// `MPI_File_set_atomicity`. Collective.
    ///
    /// # Errors
    /// `NotSame` if the ranks give different values.
    pub fn set_atomicity(&self, is_atomic: bool) -> Result<()> {
        self.together(async |call| {
            agree(call, self.check_no_split()).await?;
            check_same(call, "the atomicity", &[u8::from(is_atomic)]).await
        })?;
        self.is_atomic.set(is_atomic);
        Ok(())
    }

    /// `MPI_File_set_info`. Collective; the numbers of rank 0 count.
    ///
    /// # Errors
    /// An info object that this rank could not read, on all ranks.
    pub fn set_info(&self, info: Result<Option<Rc<Info>>>) -> Result<()> {
        let mut hints = (**self.hints.borrow()).clone();
        let read = info.and_then(|info| info.map_or(Ok(()), |info| hints.read(&info)));
        let told = self.together(async |call| {
            agree(call, read).await?;
            call.notify_all(&hints.encode()).await
        })?;
        hints.adopt(&told);
        *self.hints.borrow_mut() = Rc::new(hints);
        Ok(())
    }

    /// `MPI_File_set_view`, with `None` for `MPI_DISPLACEMENT_CURRENT`. Collective. Both pointers
    /// begin at 0 in the new view.
    ///
    /// # Errors
    /// Arguments that are wrong on some rank: on all ranks. `NotSame` if etypes or representations
    /// differ.
    pub fn set_view(
        &self,
        arguments: Result<ViewArguments>,
        disp: Option<i64>,
        info: Result<Option<Rc<Info>>>,
    ) -> Result<()> {
        let mut hints = (**self.hints.borrow()).clone();
        let given = info.and_then(|info| {
            if let Some(info) = info {
                hints.read(&info)?;
            }
            self.check_no_split()?;
            arguments
        });
        let (view, told) = self.together(async |call| {
            let given = agree(call, given).await?;
            // Only now no rank moves the shared pointer any more.
            let current = match (call.rank(), disp) {
                (0, None) => self.current_displacement(),
                _ => Ok(0),
            };
            let current = agree(call, current).await?;
            let mut mine = hints.encode().to_vec();
            mine.extend_from_slice(&current.to_le_bytes());
            mine.push(u8::from(self.shared.is_used()));
            let told = call.notify_all(&mine).await?;
            let (current, _) = told[HINT_BYTES..].as_chunks::<8>();
            let disp_of_all = disp.unwrap_or_else(|| i64::from_le_bytes(current[0]));
            let arguments = ViewArguments {
                disp: disp_of_all,
                ..given
            };
            let view = FileView::new(arguments, self.mode.writes());
            let view = agree(call, view).await?;
            let mut same = view.etype_bytes().to_le_bytes().to_vec();
            same.extend([view.datarep() as u8, u8::from(disp.is_none())]);
            let what = "the etype, the data representation or MPI_DISPLACEMENT_CURRENT";
            check_same(call, what, &same).await?;
            let is_used = told
                .chunks_exact(mine.len())
                .any(|one| one.last() == Some(&1));
            let reset = match call.rank() {
                0 if !self.mpi.repeats_answers() => self.shared.set(0, is_used),
                _ => Ok(()),
            };
            agree(call, reset).await?;
            Ok((view, told))
        })?;
        hints.adopt(&told);
        *self.hints.borrow_mut() = Rc::new(hints);
        *self.view.borrow_mut() = Rc::new(view);
        self.position.set(0);
        Ok(())
    }

    /// Where the shared pointer is in the file, in bytes: `MPI_DISPLACEMENT_CURRENT`.
    fn current_displacement(&self) -> Result<i64> {
        // The standard's only use of it (MPI-5.0 §14.3).
        if !self.mode.has(AccessMode::SEQUENTIAL) {
            let text = "MPI_DISPLACEMENT_CURRENT needs a file that is open with \
                        MPI_MODE_SEQUENTIAL";
            return Err(wrong(text.to_owned()));
        }
        self.byte_offset(self.shared_pointer()?.get()?)
    }

    /// `MPI_File_seek`, in etypes.
    ///
    /// # Errors
    /// `Arg` for a place before the beginning.
    pub fn seek(&self, offset: i64, from: SeekFrom) -> Result<()> {
        self.mode.check_not_sequential()?;
        let place = self.sought(offset, from, || Ok(self.position.get()))?;
        self.position.set(place);
        Ok(())
    }

    /// `MPI_File_seek_shared`, in etypes. Collective.
    ///
    /// # Errors
    /// `Arg` for a place before the beginning, `NotSame` if the ranks give different ones.
    pub fn seek_shared(&self, offset: i64, from: Result<SeekFrom>) -> Result<()> {
        let check = || {
            self.check_no_split()?;
            Ok((self.shared_pointer()?, from?))
        };
        self.together(async |call| {
            let (pointer, from) = agree(call, check()).await?;
            let mut same = offset.to_le_bytes().to_vec();
            same.push(from as u8);
            check_same(call, "the place", &same).await?;
            let set = || pointer.set(self.sought(offset, from, || pointer.get())?, true);
            let done = if call.rank() == 0 { set() } else { Ok(()) };
            agree(call, done).await
        })
    }

    fn sought(
        &self,
        offset: i64,
        from: SeekFrom,
        current: impl FnOnce() -> Result<i64>,
    ) -> Result<i64> {
        let base = match from {
            SeekFrom::Start => 0,
            SeekFrom::Current => current()?,
            SeekFrom::End => self.view.borrow().etypes_below(self.storage.size()?),
        };
        let place = base.checked_add(offset).filter(|&place| place >= 0);
        place.ok_or_else(|| {
            let text = format!("a seek by {offset} from {base} leads before the beginning");
            wrong(text)
        })
    }

    /// `MPI_File_get_position`, in etypes.
    pub fn position(&self) -> Result<i64> {
        self.mode.check_not_sequential()?;
        Ok(self.position.get())
    }

    /// `MPI_File_get_position_shared`, in etypes.
    pub fn shared_position(&self) -> Result<i64> {
        self.shared_pointer()?.get()
    }

    /// `MPI_File_get_byte_offset`: where an offset in etypes is in the file.
    ///
    /// # Errors
    /// `Arg` for an offset that no file has.
    pub fn byte_offset(&self, etypes: i64) -> Result<i64> {
        let view = self.view.borrow();
        Ok(view.place(view.stream_offset(etypes, 1)?))
    }

    /// `MPI_File_get_type_extent`: the extent that a datatype has in the file, in bytes.
    pub fn type_extent(&self, datatype: &Datatype) -> Result<i64> {
        self.view.borrow().datarep().extent(datatype)
    }
}
