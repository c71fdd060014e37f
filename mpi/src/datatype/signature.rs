//! The sequence of basic types of a datatype (its type signature, MPI-5.0 §5.1), run-length coded.

use std::rc::Rc;

use super::named::Named;

/// One part of a sequence of signatures.
#[derive(Debug)]
pub(super) struct SignaturePart {
    /// Bytes of the stream before this part.
    bytes_before: i64,
    /// Basic elements before this part.
    elements_before: i64,
    signature: Signature,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A row of the same basic type.
    Run(Named),
    /// Copies of a signature.
    Repeat(i64, Rc<Signature>),
    /// Signatures one after the other.
    Sequence(Rc<[SignaturePart]>),
}

/// The basic types of a stream, in order.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    /// Bytes of data.
    pub bytes: i64,
    /// Number of basic elements.
    pub elements: i64,
    /// Levels of nesting.
    pub depth: u32,
    kind: Kind,
}

impl Signature {
    /// No element at all.
    pub fn empty() -> Self {
        Self {
            bytes: 0,
            elements: 0,
            depth: 1,
            kind: Kind::Run(Named::Byte),
        }
    }

    /// One element of a basic type (none of the pair types).
    pub fn one(basic: Named) -> Self {
        let size = basic.scalar().map_or(0, |s| s.size() as i64);
        Self {
            bytes: size,
            elements: 1,
            depth: 1,
            kind: Kind::Run(basic),
        }
    }

    /// `count` copies. The caller has checked that the bytes fit.
    pub fn repeated(&self, count: i64) -> Self {
        if count <= 0 || self.elements == 0 {
            return Self::empty();
        }
        if count == 1 {
            return self.clone();
        }
        let (kind, depth) = match &self.kind {
            Kind::Run(basic) => (Kind::Run(*basic), 1),
            Kind::Repeat(n, child) => (Kind::Repeat(n * count, child.clone()), self.depth),
            Kind::Sequence(_) => (Kind::Repeat(count, Rc::new(self.clone())), self.depth + 1),
        };
        Self {
            bytes: self.bytes * count,
            elements: self.elements * count,
            depth,
            kind,
        }
    }

    /// Signatures one after the other; neighbouring runs of one type are merged.
    pub fn sequence(parts: impl IntoIterator<Item = Signature>) -> Self {
        let mut flat: Vec<Signature> = Vec::new();
        for part in parts {
            match &part.kind {
                _ if part.elements == 0 => {}
                Kind::Sequence(inner) if inner.len() <= 16 => {
                    for p in inner.iter() {
                        push(&mut flat, p.signature.clone());
                    }
                }
                _ => push(&mut flat, part),
            }
        }
        if flat.len() <= 1 {
            return flat.pop().unwrap_or_else(Self::empty);
        }
        let depth = flat.iter().map(|s| s.depth).max().unwrap_or(0) + 1;
        let (mut bytes, mut elements) = (0, 0);
        let parts: Rc<[SignaturePart]> = flat
            .into_iter()
            .map(|signature| {
                let part = SignaturePart {
                    bytes_before: bytes,
                    elements_before: elements,
                    signature,
                };
                bytes += part.signature.bytes;
                elements += part.signature.elements;
                part
            })
            .collect();
        Self {
            bytes,
            elements,
            depth,
            kind: Kind::Sequence(parts),
        }
    }

    /// Basic elements in the first `bytes` bytes, which are at most the whole; `None` when they end
    /// inside an element.
    pub fn elements_in(&self, bytes: i64) -> Option<i64> {
        if bytes == 0 {
            return Some(0);
        }
        match &self.kind {
            Kind::Run(_) => {
                let size = self.bytes / self.elements;
                (bytes % size == 0).then_some(bytes / size)
            }
            Kind::Repeat(_, child) => {
                let whole = bytes / child.bytes;
                let rest = child.elements_in(bytes % child.bytes)?;
                Some(whole * child.elements + rest)
            }
            Kind::Sequence(parts) => {
                let i = parts.partition_point(|p| p.bytes_before < bytes) - 1;
                let rest = parts[i]
                    .signature
                    .elements_in(bytes - parts[i].bytes_before)?;
                Some(parts[i].elements_before + rest)
            }
        }
    }

    /// Bytes of the first `elements` basic elements, which are at most all of them.
    pub fn bytes_of(&self, elements: i64) -> i64 {
        if elements == 0 {
            return 0;
        }
        match &self.kind {
            Kind::Run(_) => self.bytes / self.elements * elements,
            Kind::Repeat(_, child) => {
                let whole = elements / child.elements;
                whole * child.bytes + child.bytes_of(elements % child.elements)
            }
            Kind::Sequence(parts) => {
                let i = parts.partition_point(|p| p.elements_before < elements) - 1;
                let p = &parts[i];
                p.bytes_before + p.signature.bytes_of(elements - p.elements_before)
            }
        }
    }

    /// Calls `visit(basic type, number of elements)` for each run in order, until it fails.
    pub fn try_runs<E>(&self, visit: &mut dyn FnMut(Named, i64) -> Result<(), E>) -> Result<(), E> {
        if self.elements == 0 {
            return Ok(());
        }
        match &self.kind {
            Kind::Run(basic) => visit(*basic, self.elements),
            Kind::Repeat(count, child) => {
                for _ in 0..*count {
                    child.try_runs(visit)?;
                }
                Ok(())
            }
            Kind::Sequence(parts) => {
                for p in parts.iter() {
                    p.signature.try_runs(visit)?;
                }
                Ok(())
            }
        }
    }

    /// Sum of `weight(basic type)` over all elements; `None` on overflow.
    pub fn weigh(&self, weight: &dyn Fn(Named) -> i64) -> Option<i64> {
        if self.elements == 0 {
            return Some(0);
        }
        match &self.kind {
            Kind::Run(basic) => weight(*basic).checked_mul(self.elements),
            Kind::Repeat(count, child) => child.weigh(weight)?.checked_mul(*count),
            Kind::Sequence(parts) => parts
                .iter()
                .try_fold(0i64, |sum, p| sum.checked_add(p.signature.weigh(weight)?)),
        }
    }
}

/// Appends a signature, merged with the run before it where both are of one type.
fn push(flat: &mut Vec<Signature>, part: Signature) {
    if let Kind::Run(basic) = part.kind
        && let Some(last) = flat.last_mut()
        && matches!(last.kind, Kind::Run(b) if b == basic)
    {
        last.bytes += part.bytes;
        last.elements += part.elements;
        return;
    }
    flat.push(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int_double() -> Signature {
        Signature::sequence([Signature::one(Named::Int), Signature::one(Named::Double)])
    }

    #[test]
    fn runs_merge() {
        let s = Signature::sequence([
            Signature::one(Named::Int).repeated(3),
            Signature::empty(),
            Signature::one(Named::Int),
        ]);
        assert!(matches!(s.kind, Kind::Run(Named::Int)));
        assert_eq!((s.bytes, s.elements), (16, 4));
    }

    #[test]
    fn elements_and_bytes_are_inverse() {
        let s = int_double().repeated(5);
        assert_eq!(s.elements, 10);
        for n in 0..=10 {
            assert_eq!(s.elements_in(s.bytes_of(n)), Some(n));
        }
        assert_eq!(s.elements_in(5), None);
        assert_eq!(s.elements_in(12 + 4), Some(3));
    }

    #[test]
    fn weights_add_up() {
        let s = int_double().repeated(3);
        assert_eq!(s.weigh(&|b| if b == Named::Int { 1 } else { 10 }), Some(33));
        assert_eq!(s.weigh(&|_| i64::MAX), None);
    }
}
