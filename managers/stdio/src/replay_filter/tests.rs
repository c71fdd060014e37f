//! Tests of the replay filter.

use super::*;
use proptest::prelude::*;

fn push(repeat: &mut ReplayFilter, text: &str) -> (String, bool) {
    let mut out = Vec::new();
    let diverged = repeat.push(text.as_bytes(), &mut out).is_some();
    (String::from_utf8(out).unwrap(), diverged)
}

#[test]
fn what_is_written_again_is_dropped_however_it_is_cut() {
    let mut r = ReplayFilter::default();
    assert_eq!(push(&mut r, "one\n"), ("one\n".into(), false));
    r.mark(Epoch(1));
    push(&mut r, "two\n");
    push(&mut r, "three\n");
    r.rewind(Some(Epoch(1)));
    assert_eq!(push(&mut r, "tw"), (String::new(), false));
    assert_eq!(push(&mut r, "o\nthree\nfo"), ("fo".into(), false));
    assert_eq!(push(&mut r, "ur\n"), ("ur\n".into(), false));
    r.rewind(None);
    assert_eq!(
        push(&mut r, "one\ntwo\nthree\nfour\nfive\n"),
        ("five\n".into(), false)
    );
}

#[test]
fn a_line_that_differs_is_passed_on_and_those_around_it_are_dropped() {
    let mut r = ReplayFilter::default();
    r.mark(Epoch(1));
    push(&mut r, "same\n");
    push(&mut r, "took 3 s\n");
    push(&mut r, "end\n");
    r.rewind(Some(Epoch(1)));
    assert_eq!(
        push(&mut r, "same\ntook 4 s\n"),
        ("took 4 s\n".into(), true)
    );
    assert_eq!(push(&mut r, "end\nmore\n"), ("more\n".into(), false));
    // The latest output counts now.
    r.rewind(Some(Epoch(1)));
    assert_eq!(
        push(&mut r, "same\ntook 4 s\nend\nmore\n"),
        (String::new(), false)
    );
}

/// The lines that are shown of a second run after a first run.
fn shown_after(first: &[&str], second: &[&str]) -> Vec<String> {
    let mut r = ReplayFilter::default();
    r.mark(Epoch(1));
    push(&mut r, &first.concat());
    r.rewind(Some(Epoch(1)));
    let (mut shown, _) = push(&mut r, &second.concat());
    let mut out = Vec::new();
    r.finish(&mut out);
    shown.push_str(&String::from_utf8(out).unwrap());
    shown.split_inclusive('\n').map(str::to_owned).collect()
}

#[test]
fn lines_that_are_inserted_or_left_out_do_not_make_the_others_new() {
    let first = ["a\n", "b\n", "c\n", "d\n"];
    assert_eq!(
        shown_after(&first, &["a\n", "x\n", "b\n", "c\n", "d\n"]),
        ["x\n"]
    );
    assert!(shown_after(&first, &["a\n", "d\n"]).is_empty());
    assert_eq!(
        shown_after(&first, &["y\n", "b\n", "z\n", "d\n", "e\n"]),
        ["y\n", "z\n", "e\n"]
    );
    assert_eq!(
        shown_after(&["long line\n"], &["long", " text\n"]),
        ["long text\n"]
    );
}

#[test]
fn lines_that_come_in_another_order_are_not_shown_again() {
    let first = ["a\n", "b\n", "c\n", "d\n"];
    assert!(shown_after(&first, &["c\n", "a\n", "d\n", "b\n"]).is_empty());
    assert_eq!(
        shown_after(&first, &["d\n", "new\n", "c\n", "c\n", "b\n", "a\n"]),
        ["new\n", "c\n"]
    );
}

#[test]
fn a_skipped_line_is_new_when_it_comes_after_too_many_others() {
    let late = 2 * WINDOW;
    let mut first: Vec<String> = (0..=late).map(|i| format!("{i}\n")).collect();
    first.insert(0, "retried\n".into());
    let mut second: Vec<&str> = first[1..].iter().map(String::as_str).collect();
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    second.insert(late, "retried\n");
    assert!(shown_after(&first, &second).is_empty());
    second.swap(late, late + 1);
    assert_eq!(shown_after(&first, &second), ["retried\n"]);
}

#[test]
fn a_skipped_line_stays_expected_after_another_rollback() {
    let mut r = ReplayFilter::default();
    r.mark(Epoch(1));
    push(&mut r, "a\nb\nc\nd\n");
    r.rewind(Some(Epoch(1)));
    assert_eq!(push(&mut r, "c\n"), (String::new(), false));
    r.mark(Epoch(2));
    assert_eq!(push(&mut r, "b\n"), (String::new(), false));
    r.rewind(Some(Epoch(2)));
    assert_eq!(push(&mut r, "d\na\nb\ne\n"), ("e\n".into(), false));
}

#[test]
fn a_prompt_does_not_wait_for_skipped_lines() {
    let mut r = ReplayFilter::default();
    r.mark(Epoch(1));
    push(&mut r, "a\nb\n");
    r.rewind(Some(Epoch(1)));
    assert_eq!(push(&mut r, "b\nname? "), ("name? ".into(), false));
    assert_eq!(push(&mut r, "I\na\n"), ("I\n".into(), true));
}

#[test]
fn a_run_that_stays_different_is_passed_on_as_it_is() {
    let first: Vec<String> = (0..200).map(|i| format!("{i}\n")).collect();
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    let mut second = vec!["other\n"; WINDOW + 1];
    second.extend(&first);
    assert_eq!(shown_after(&first, &second), second);
    second.drain(..2);
    assert_eq!(shown_after(&first, &second), vec!["other\n"; WINDOW - 1]);
}

#[test]
fn a_line_that_no_newline_ends_is_not_held_back_for_ever() {
    let mut r = ReplayFilter::default();
    r.mark(Epoch(1));
    push(&mut r, "short\n");
    r.rewind(Some(Epoch(1)));
    let long = "x".repeat(LONGEST_LINE + 1);
    assert_eq!(push(&mut r, &long), (long, true));
}

#[test]
fn an_image_in_the_middle_of_a_repeated_piece_holds_what_came_of_it() {
    let mut r = ReplayFilter::default();
    r.mark(Epoch(1));
    push(&mut r, "a long line\n");
    r.rewind(Some(Epoch(1)));
    push(&mut r, "a long");
    r.mark(Epoch(2));
    r.commit(Epoch(2));
    assert_eq!(push(&mut r, " line\nx\n"), ("x\n".into(), false));
    r.rewind(Some(Epoch(2)));
    assert_eq!(push(&mut r, " line\nx\ny\n"), ("y\n".into(), false));
}

#[test]
fn a_rank_that_ends_in_the_middle_of_a_piece_wrote_something_new() {
    let mut r = ReplayFilter::default();
    r.mark(Epoch(1));
    push(&mut r, "a long line\n");
    r.rewind(Some(Epoch(1)));
    push(&mut r, "a lo");
    let mut out = Vec::new();
    assert_eq!(r.finish(&mut out), Some(Diverged));
    assert_eq!(out, b"a lo");
    assert_eq!(r.finish(&mut out), None);
}

#[test]
fn memory_is_bounded_and_the_place_of_an_image_is_kept() {
    let mut r = ReplayFilter::default();
    let line = |i: usize| format!("{i}\n");
    let mut out = Vec::new();
    let many = 3 * MOST_PIECES;
    for i in 0..many {
        if i == many / 3 + 1 {
            r.mark(Epoch(1));
        }
        r.push(line(i).as_bytes(), &mut out);
        assert!(r.written.len() <= MOST_PIECES);
    }
    r.rewind(Some(Epoch(1)));
    out.clear();
    for i in many / 3 + 1..=many {
        assert_eq!(r.push(line(i).as_bytes(), &mut out), None);
    }
    assert_eq!(out, line(many).as_bytes());
}

#[derive(Debug, Clone)]
enum Act {
    Write(usize),
    Image,
    Commit,
    Rollback,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (1usize..40).prop_map(Act::Write),
        2 => Just(Act::Image),
        2 => Just(Act::Commit),
        2 => Just(Act::Rollback),
    ];
    prop::collection::vec(act, 1..80)
}

proptest! {
    /// The output of a deterministic program is shown once, wherever it rolls back to.
    #[test]
    fn a_deterministic_program_is_heard_once(acts in acts(), lines in 11u8..252) {
        let text: Vec<u8> = (0..4000u32).map(|i| (i * i % 251) as u8 % lines).collect();
        let mut r = ReplayFilter::default();
        let mut out = Vec::new();
        let (mut at, mut most) = (0, 0);
        let mut images: Vec<(Epoch, usize)> = Vec::new();
        let (mut next, mut committed) = (1, None);
        for act in acts {
            match act {
                Act::Write(n) => {
                    let end = (at + n).min(text.len());
                    prop_assert_eq!(r.push(&text[at..end], &mut out), None);
                    at = end;
                    most = most.max(at);
                }
                Act::Image => {
                    r.mark(Epoch(next));
                    images.push((Epoch(next), at));
                    next += 1;
                }
                Act::Commit => {
                    if let Some((epoch, place)) = images.last().copied() {
                        r.commit(epoch);
                        committed = Some((epoch, place));
                    }
                }
                Act::Rollback => {
                    r.rewind(committed.map(|c| c.0));
                    at = committed.map_or(0, |c| c.1);
                    images.retain(|image| Some(image.0) <= committed.map(|c| c.0));
                }
            }
        }
        r.push(&text[at..], &mut out);
        prop_assert_eq!(out, text);
    }

    /// Of lines that all come less than a window before or after their turn, none is shown twice.
    #[test]
    fn lines_in_another_order_are_shown_once(
        lines in prop::collection::vec((0u8..200, 0..WINDOW), 0..500),
        kinds in 1u8..200,
    ) {
        let text = |line: u8| vec![b'a' + line % kinds % 26, b'a' + line % kinds / 26, b'\n'];
        let mut again: Vec<_> = lines.iter().enumerate().collect();
        again.sort_by_key(|(turn, (_, late))| turn + late);
        let mut r = ReplayFilter::default();
        let mut out = Vec::new();
        for (line, _) in &lines {
            r.push(&text(*line), &mut out);
        }
        r.rewind(None);
        out.clear();
        for (_, (line, _)) in again {
            prop_assert_eq!(r.push(&text(*line), &mut out), None);
        }
        prop_assert_eq!(out, b"");
        prop_assert!(r.expected.is_empty());
    }

    /// A program whose threads print in any order, each line within a few of its turn, is heard
    /// once, wherever it rolls back to.
    #[test]
    fn a_program_with_threads_is_heard_once(
        acts in acts(),
        late in prop::collection::vec(0usize..4, 64..128),
    ) {
        let lines = 0..1000usize;
        let order = |run: usize, done: &BTreeSet<usize>| -> Vec<usize> {
            let mut rest: Vec<usize> = lines.clone().filter(|line| !done.contains(line)).collect();
            rest.sort_by_key(|line| line + late[(line * (run + 1) + run) % late.len()]);
            rest
        };
        let mut r = ReplayFilter::default();
        let mut out = Vec::new();
        let (mut run, mut epoch) = (0, 0);
        let (mut done, mut at_image) = (BTreeSet::new(), (None, BTreeSet::new()));
        let mut rest = order(run, &done).into_iter();
        for act in acts {
            match act {
                Act::Write(n) => {
                    for line in rest.by_ref().take(n) {
                        r.push(format!("{line}\n").as_bytes(), &mut out);
                        done.insert(line);
                    }
                }
                Act::Image | Act::Commit => {
                    epoch += 1;
                    r.mark(Epoch(epoch));
                    r.commit(Epoch(epoch));
                    at_image = (Some(Epoch(epoch)), done.clone());
                }
                Act::Rollback => {
                    r.rewind(at_image.0);
                    done.clone_from(&at_image.1);
                    run += 1;
                    rest = order(run, &done).into_iter();
                }
            }
        }
        for line in rest {
            r.push(format!("{line}\n").as_bytes(), &mut out);
        }
        let mut shown: Vec<usize> = String::from_utf8_lossy(&out)
            .lines()
            .map(|line| line.parse().unwrap())
            .collect();
        shown.sort_unstable();
        prop_assert_eq!(shown, lines.collect::<Vec<_>>());
    }
}

#[test]
fn another_mpirun_drops_what_was_shown_beyond_the_image() {
    let mut filter = ReplayFilter::default();
    let mut out = Vec::new();
    filter.mark(Epoch(1));
    filter.push(b"one\ntwo\nthree\n", &mut out);
    filter.rewind(Some(Epoch(1)));
    filter.push(b"one\n", &mut out);
    assert_eq!(out, b"one\ntwo\nthree\n");
    filter.mark(Epoch(2));
    let shown = filter.shown_beyond().expect("two and three");
    let text = serde_json::to_string(&shown).unwrap();
    let shown: ShownBeyond = serde_json::from_str(&text).unwrap();
    let mut next = ReplayFilter::continued(Epoch(2), shown);
    next.push(b"two\n", &mut out);
    // The new run rolls back, too.
    next.rewind(Some(Epoch(2)));
    next.push(b"two\nthree\nfour\n", &mut out);
    assert_eq!(out, b"one\ntwo\nthree\nfour\n");
    assert_eq!(next.shown_beyond(), None);
}

#[test]
fn a_rank_that_begins_from_a_file_and_is_lost_before_its_first_image_is_heard_once() {
    // The first rollback is the beginning.
    let mut filter = ReplayFilter::default();
    filter.rewind(Some(Epoch(4)));
    assert_eq!(
        push(&mut filter, "one\ntwo\n"),
        ("one\ntwo\n".into(), false)
    );
    filter.rewind(Some(Epoch(4)));
    assert_eq!(
        push(&mut filter, "one\ntwo\nthree\n"),
        ("three\n".into(), false)
    );
}
