//! How a section of an array becomes a datatype, so that its elements need no copy (MPI-5.0
//! §19.1.12). A message of a section has the elements in their order, as if they lay side by side.

/// One dimension of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionDimension {
    /// Number of elements; -1 in the last dimension of an array that the program has given on
    /// without its size.
    pub extent: isize,
    /// Bytes from one element to the next.
    pub stride: isize,
}

/// What the program says about the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageShape {
    /// Number of datatypes. For calls with several counts it is of no matter.
    pub count: i64,
    /// Bytes of the datatype; `None` if it has gaps or does not begin at its address.
    pub bytes: Option<i64>,
    /// How the call uses the buffer.
    pub layout: BufferLayout,
}

/// How a call uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferLayout {
    /// One message.
    Whole,
    /// One message for each process, side by side.
    Blocks,
    /// Messages at displacements of the program's.
    Apart,
}

/// The datatype of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SectionPlan {
    /// The elements lie side by side: the program's count and datatype.
    Plain,
    /// The program's count, and its datatype with these bytes from one to the next.
    Resized(i64),
    /// One of these.
    Made {
        /// The elements.
        elements: ElementTree,
        /// Bytes from the message of one process to that of the next.
        extent: Option<i64>,
    },
}

/// The elements of a message, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementTree {
    /// One element, of so many of the program's datatype.
    Element(i64),
    /// One element, of so many bytes: several make one of the program's datatype.
    Bytes(i64),
    /// So many, at equal distances in bytes.
    Repeated(i64, i64, Box<ElementTree>),
    /// The second after the first, at this distance in bytes.
    Pair(Box<ElementTree>, i64, Box<ElementTree>),
}

/// Why a section can't be a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionRefusal {
    /// The datatype has gaps, which the section has, too.
    Gaps,
    /// The message is longer than the section.
    TooShort,
    /// The message ends inside an element.
    PartOfElement,
    /// The messages of several processes do not lie at equal distances.
    Uneven,
    /// An operation computes with elements side by side only (MPI-5.0 §6.9.1).
    Operation,
}

impl SectionRefusal {
    /// What the user reads.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Gaps => "a section with strides needs a datatype without gaps",
            Self::TooShort => "the section has fewer elements than the message",
            Self::PartOfElement => "the message ends inside an element of the section",
            Self::Uneven => {
                "the messages of several processes do not lie at equal distances in the section"
            }
            Self::Operation => {
                "this call needs a buffer whose elements lie side by side, not a section with strides"
            }
        }
    }
}

/// The plan for a section whose elements have `element` bytes.
///
/// # Errors
/// If no datatype describes the message.
pub fn plan(
    dimensions: &[SectionDimension],
    element: i64,
    message: MessageShape,
) -> Result<SectionPlan, SectionRefusal> {
    let merged = merge(dimensions);
    let is_empty = message.count == 0 && message.layout != BufferLayout::Apart;
    let is_plain = is_empty || lies_side_by_side(dimensions.iter().copied(), element);
    let Some(last) = merged.last().copied().filter(|_| !is_plain) else {
        return Ok(SectionPlan::Plain);
    };
    let bytes = message.bytes.ok_or(SectionRefusal::Gaps)?;
    if merged.len() == 1 && bytes == element {
        if message.layout != BufferLayout::Apart && message.count > last.extent as i64 {
            return Err(SectionRefusal::TooShort);
        }
        return Ok(SectionPlan::Resized(last.stride as i64));
    }
    if message.layout == BufferLayout::Apart {
        return Err(SectionRefusal::Uneven);
    }
    let all = bytes
        .checked_mul(message.count)
        .ok_or(SectionRefusal::TooShort)?;
    if all == 0 {
        return Ok(SectionPlan::Plain);
    }
    if element == 0 || all % element != 0 {
        return Err(SectionRefusal::PartOfElement);
    }
    let wanted = all / element;
    if wanted < 0 || wanted > elements(&merged) {
        return Err(SectionRefusal::TooShort);
    }
    let leaf = match element % bytes {
        0 => ElementTree::Element(element / bytes),
        _ => ElementTree::Bytes(element),
    };
    let extent = match message.layout {
        BufferLayout::Blocks => {
            let slab = elements(&merged[..merged.len() - 1]);
            if wanted % slab != 0 {
                return Err(SectionRefusal::Uneven);
            }
            Some(wanted / slab * last.stride as i64)
        }
        BufferLayout::Whole | BufferLayout::Apart => None,
    };
    let elements = tree(&merged, wanted, &leaf).ok_or(SectionRefusal::TooShort)?;
    Ok(SectionPlan::Made { elements, extent })
}

/// Whether all elements lie side by side.
///
/// A section of no elements or of unknown size does, as far as anybody can see.
pub fn lies_side_by_side(dimensions: impl Iterator<Item = SectionDimension>, element: i64) -> bool {
    let (mut next, mut does) = (element, true);
    for SectionDimension { extent, stride } in dimensions.filter(|d| d.extent != 1) {
        if extent == 0 {
            return true;
        }
        does &= stride as i64 == next || extent < 0;
        next = next.saturating_mul(extent as i64);
    }
    does
}

/// Dimensions that go on where the one below ends are one with it; those of one element are none.
fn merge(dimensions: &[SectionDimension]) -> Vec<SectionDimension> {
    let mut merged: Vec<SectionDimension> = Vec::new();
    for dimension in dimensions.iter().filter(|d| d.extent != 1) {
        match merged.last_mut() {
            Some(below) if below.stride.checked_mul(below.extent) == Some(dimension.stride) => {
                below.extent = match dimension.extent {
                    -1 => -1,
                    extent => below.extent.saturating_mul(extent),
                };
            }
            _ => merged.push(*dimension),
        }
    }
    merged
}

fn elements(dimensions: &[SectionDimension]) -> i64 {
    let extents = dimensions.iter().map(|d| d.extent as i64);
    extents.fold(1, i64::saturating_mul)
}

/// The first elements of a section; `None` for none.
fn tree(dimensions: &[SectionDimension], wanted: i64, leaf: &ElementTree) -> Option<ElementTree> {
    let Some((last, below)) = dimensions.split_last() else {
        return (wanted > 0).then(|| leaf.clone());
    };
    let slab = elements(below);
    let stride = last.stride as i64;
    let (slabs, rest) = (wanted / slab, wanted % slab);
    let whole = tree(below, slab, leaf).filter(|_| slabs > 0);
    let whole = whole.map(|slab| ElementTree::Repeated(slabs, stride, Box::new(slab)));
    let rest = (rest > 0).then(|| tree(below, rest, leaf)).flatten();
    match (whole, rest) {
        (Some(whole), Some(rest)) => {
            let at = slabs * stride;
            Some(ElementTree::Pair(Box::new(whole), at, Box::new(rest)))
        }
        (whole, rest) => whole.or(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: i64 = 4;

    fn section(list: &[(isize, isize)]) -> Vec<SectionDimension> {
        let of = |(extent, stride): &(isize, isize)| SectionDimension {
            extent: *extent,
            stride: *stride,
        };
        list.iter().map(of).collect()
    }

    fn message(count: i64, bytes: i64, layout: BufferLayout) -> MessageShape {
        let bytes = Some(bytes);
        MessageShape {
            count,
            bytes,
            layout,
        }
    }

    /// Where the elements of a tree lie, with the bytes of each.
    fn places(tree: &ElementTree, at: i64, bytes: i64, into: &mut Vec<(i64, i64)>) {
        match tree {
            ElementTree::Element(number) => into.push((at, number * bytes)),
            ElementTree::Bytes(bytes) => into.push((at, *bytes)),
            ElementTree::Repeated(count, stride, of) => {
                (0..*count).for_each(|i| places(of, at + i * stride, bytes, into));
            }
            ElementTree::Pair(first, distance, second) => {
                places(first, at, bytes, into);
                places(second, at + distance, bytes, into);
            }
        }
    }

    /// The elements of a section in their order.
    fn in_order(dimensions: &[SectionDimension]) -> Vec<i64> {
        dimensions.iter().fold(vec![0], |inner, d| {
            let steps = (0..d.extent).map(|i| (i * d.stride) as i64);
            steps
                .flat_map(|step| inner.iter().map(move |at| at + step))
                .collect()
        })
    }

    #[test]
    fn a_message_has_the_first_elements_in_their_order() {
        for list in [
            &[(4, 24), (3, 320)][..],
            &[(5, 8)],
            &[(2, 4), (3, 40), (4, 400)],
            &[(3, -8), (2, 64)],
            &[(3, 4), (4, 12), (2, 100)],
        ] {
            let dimensions = section(list);
            let all = in_order(&dimensions);
            for count in 1..=all.len() {
                // Two of the datatype make an element.
                let asked = message(2 * count as i64, REAL / 2, BufferLayout::Whole);
                let plan = plan(&dimensions, REAL, asked).expect("a plan");
                let SectionPlan::Made { elements, extent } = plan else {
                    panic!("{list:?} is no plain section");
                };
                let mut found = Vec::new();
                places(&elements, 0, REAL / 2, &mut found);
                let expected: Vec<_> = all[..count].iter().map(|at| (*at, REAL)).collect();
                assert_eq!((found, extent), (expected, None), "{list:?}");
            }
            let longer = message(all.len() as i64 + 1, REAL, BufferLayout::Whole);
            let refused = plan(&dimensions, REAL, longer);
            assert_eq!(refused, Err(SectionRefusal::TooShort), "{list:?}");
        }
    }

    #[test]
    fn what_lies_side_by_side_needs_no_datatype() {
        for list in [
            &[][..],
            &[(7, 4)],
            &[(7, 4), (3, 28)],
            &[(1, 99), (7, 4), (1, 5)],
            &[(0, 8), (3, 100)],
            &[(3, 4), (-1, 12)],
            &[(-1, 8)],
        ] {
            let dimensions = section(list);
            let given = dimensions.iter().copied();
            assert!(lies_side_by_side(given, REAL), "{list:?}");
            let asked = message(3, REAL, BufferLayout::Apart);
            assert_eq!(plan(&dimensions, REAL, asked), Ok(SectionPlan::Plain));
        }
    }

    #[test]
    fn one_stride_is_a_datatype_of_another_extent() {
        for layout in [
            BufferLayout::Whole,
            BufferLayout::Blocks,
            BufferLayout::Apart,
        ] {
            let made = plan(&section(&[(9, 8)]), REAL, message(2, REAL, layout));
            assert_eq!(made, Ok(SectionPlan::Resized(8)));
        }
    }

    #[test]
    fn messages_side_by_side_need_equal_distances() {
        let rows = section(&[(4, 4), (6, 40)]);
        let blocks = |count| plan(&rows, REAL, message(count, REAL, BufferLayout::Blocks));
        let Ok(SectionPlan::Made { extent, .. }) = blocks(8) else {
            panic!("two rows are a block");
        };
        assert_eq!(extent, Some(80));
        assert_eq!(blocks(6), Err(SectionRefusal::Uneven));
        let apart = plan(&rows, REAL, message(4, REAL, BufferLayout::Apart));
        assert_eq!(apart, Err(SectionRefusal::Uneven));
    }

    #[test]
    fn datatypes_that_do_not_fit_are_refused() {
        let rows = section(&[(4, 8), (6, 80)]);
        let gaps = MessageShape {
            count: 1,
            bytes: None,
            layout: BufferLayout::Whole,
        };
        assert_eq!(plan(&rows, REAL, gaps), Err(SectionRefusal::Gaps));
        let part = message(3, 2, BufferLayout::Whole);
        assert_eq!(plan(&rows, REAL, part), Err(SectionRefusal::PartOfElement));
        // Three elements make one of the datatype.
        let several = plan(&rows, REAL, message(2, 12, BufferLayout::Whole));
        let Ok(SectionPlan::Made { elements, .. }) = several else {
            panic!("six elements fit");
        };
        let mut found = Vec::new();
        places(&elements, 0, 12, &mut found);
        assert_eq!(found.len(), 6);
        assert_eq!(found[5], (88, 4));
    }
}
