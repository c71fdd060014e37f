//! Orders to a restarter that loads the images of a rank ahead of its process.

use crate::bytes::{RecordReader, RecordWriter};
use crate::image_number::ImageNumber;

/// Length of a [`LoadOrder`] in bytes.
pub const LOAD_ORDER_LENGTH: usize = 16 + LOAD_PATH;
/// Longest path of an image in an order, with a zero byte at its end.
pub const LOAD_PATH: usize = 4096;
/// The answer of a restarter that has loaded an image and waits for the next order. It is as long
/// as an [`ImageError`](crate::ImageError).
pub const LOADED: [u8; crate::ERROR_LENGTH] = *b"rjil\x01\0\0\0\0\0\0\0\0\0\0\0";

const MAGIC: u32 = u32::from_le_bytes(*b"rjlo");
/// The process continues from the image.
const LAST: u32 = 1;

/// The next image that a restarter is to load. It refers to the image that is loaded.
#[derive(Clone, Copy)]
pub struct LoadOrder {
    /// What it is called.
    pub number: ImageNumber,
    /// The process continues from it.
    pub is_last: bool,
    /// Path of the image, with a zero byte at its end.
    pub path: [u8; LOAD_PATH],
}

impl LoadOrder {
    /// An order for the image at a path. `None` if the path is too long, or no path.
    #[must_use]
    pub fn new(path: &[u8], number: ImageNumber, is_last: bool) -> Option<Self> {
        let mut room = [0; LOAD_PATH];
        let is_path = !path.is_empty() && !path.contains(&0);
        room[..LOAD_PATH - 1]
            .get_mut(..path.len())
            .filter(|_| is_path)?
            .copy_from_slice(path);
        Some(Self {
            number,
            is_last,
            path: room,
        })
    }

    /// The order as a message of fixed length.
    #[must_use]
    pub fn encode(&self) -> [u8; LOAD_ORDER_LENGTH] {
        let mut bytes = [0; LOAD_ORDER_LENGTH];
        let mut fields = RecordWriter::new(&mut bytes);
        fields.word(MAGIC);
        fields.word(self.number.epoch);
        fields.word(if self.is_last { LAST } else { 0 });
        fields.word(self.number.step);
        fields.put(&self.path);
        bytes
    }

    /// Reads [`LoadOrder::encode`]'s bytes. `None` for others.
    #[must_use]
    pub fn decode(bytes: &[u8; LOAD_ORDER_LENGTH]) -> Option<Self> {
        let mut fields = RecordReader::new(bytes);
        let [magic, epoch, flags, step] = core::array::from_fn(|_| fields.word());
        let path = fields.take::<LOAD_PATH>();
        let is_order = magic == MAGIC && flags & !LAST == 0;
        let is_path = path[0] != 0 && path[LOAD_PATH - 1] == 0;
        (is_order && is_path).then_some(Self {
            number: ImageNumber { epoch, step },
            is_last: flags & LAST != 0,
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ERROR_LENGTH, ImageError};

    #[test]
    fn orders_pass_a_message_unchanged_and_others_are_refused() {
        for is_last in [false, true] {
            let number = ImageNumber::from((9, 2));
            let order = LoadOrder::new(b"/tmp/rank-3.epoch-9.move-2", number, is_last);
            let order = order.expect("an order");
            let same = LoadOrder::decode(&order.encode()).expect("the order");
            assert_eq!(
                (same.number, same.is_last, same.path),
                (number, is_last, order.path)
            );
        }
        let first = ImageNumber::of_checkpoint(1);
        assert!(LoadOrder::new(b"", first, false).is_none());
        assert!(LoadOrder::new(b"/a\0b", first, false).is_none());
        assert!(LoadOrder::new(&[b'a'; LOAD_PATH], first, false).is_none());
        let mut forged = LoadOrder::new(b"/a", first, false)
            .expect("an order")
            .encode();
        forged[8] = 6;
        assert!(LoadOrder::decode(&forged).is_none());
        assert!(LoadOrder::decode(&[0; LOAD_ORDER_LENGTH]).is_none());
        assert_eq!(ImageError::decode(&LOADED), None);
        assert_eq!(LOADED.len(), ERROR_LENGTH);
    }
}
