//! Random runs of jobs that lose hosts, ranks and central managers, and whose local managers are
//! stopped for a while. Every message and every step of a process comes in a random order.
//!
//! `REJOIN_LOST_HOSTS_SEEDS=17..18` repeats one seed.

use super::leased::LeasedHost;
use super::{ProcessStep, System};
use crate::{Action, Jobs, KILLED, NONE, TWO};
use rejoin_managers_protocol::central::{CentralInput, Failover};
use rejoin_managers_protocol::lease::Terms;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::End;
use rejoin_managers_protocol::verdict::Verdict;
use rejoin_sim::rng::Rng;

/// A job that has not ended after so many steps is stuck.
const MOST_STEPS: u32 = 60_000;

/// Faults that are still to come.
struct Fate {
    deaths: u32,
    hosts: u32,
    cuts: u32,
    stops: u32,
    centrals: u32,
    asks: u32,
}

/// What a run has shown.
#[derive(Debug, Default)]
struct Shown {
    successes: u32,
    region_starts: u32,
    moves: u32,
    recoveries: u32,
    hosts_lost: u32,
    lapses: u32,
}

impl Action {
    /// The host on which it happens, and whether it needs ranks that run.
    fn place(&self, state: &System) -> (usize, bool) {
        let of_process = |index: usize| state.home_of(state.processes[index].instance);
        match *self {
            Action::Up(host) | Action::Down(host) | Action::Swept(host) => (host, false),
            Action::TickLocal(host) => (host, false),
            Action::Restored(index) => (state.home_of(state.restores[index].instance), false),
            Action::Advance(index) | Action::Image(index) | Action::Refuse(index) => {
                (of_process(index), true)
            }
            // A suspended process takes no signal but SIGKILL.
            Action::EndsBySignal(index, signal) => (of_process(index), signal != 9),
            Action::Ends(index, _)
            | Action::Dies(index)
            | Action::ExitStatus(index, _)
            | Action::Stop(index) => (of_process(index), false),
            Action::LoseImage(rank, _) | Action::Written(rank, ..) | Action::Copied(rank, ..) => {
                (state.host_of(rank), false)
            }
            Action::Ask
            | Action::OfMoves(_)
            | Action::Signal
            | Action::StopJob
            | Action::CentralDies { .. }
            | Action::Doom(_) => (0, false),
        }
    }
}

/// The steps that may come next.
fn steps(jobs: &Jobs, state: &System) -> Vec<Action> {
    let mut actions = Vec::new();
    Jobs::of_hosts(state, &mut actions);
    jobs.of_processes(state, &mut actions);
    actions.retain(|action| {
        let (host, runs) = action.place(state);
        let link = matches!(action, Action::Up(_) | Action::Down(_));
        // What its manager has sent goes on. Its ranks go on, too, but nothing comes of that.
        let waits = state.is_stopped(host) && !matches!(action, Action::Up(_));
        (!link || state.is_reached(host)) && (!runs || state.runs(host)) && !waits
    });
    actions
}

/// A fault at a random point, if one is left.
fn strike(rng: &mut Rng, state: &mut System, fate: &mut Fate) {
    let host = rng.below(state.hosts.len() as u64) as usize;
    let there = !state.is_gone(host) && !state.hosts[host].done;
    match rng.below(6) {
        0 if fate.deaths > 0 && !state.processes.is_empty() => {
            let index = rng.below(state.processes.len() as u64) as usize;
            let process = &state.processes[index];
            let is_stopped = state.is_stopped(state.home_of(process.instance));
            if process.acts() && process.asked.is_none() && !is_stopped {
                fate.deaths -= 1;
                let action = match rng.chance(50) && process.step != ProcessStep::BeforeInit {
                    true => Action::Dies(index),
                    false => Action::Ends(index, KILLED),
                };
                Jobs::perform(state, action);
            }
        }
        1 if fate.hosts > 0 && there => {
            fate.hosts -= 1;
            state.lose_host(host, rng.chance(50));
        }
        2 if fate.cuts > 0 && there => {
            fate.cuts -= 1;
            let state = &mut state.lease_state().hosts[host];
            (state.cut, state.troubled) = (true, true);
        }
        3 if fate.centrals > 0 => {
            fate.centrals -= 1;
            state.lease_state().is_asked = false;
            let late = rng.chance(30);
            Jobs::perform(state, Action::CentralDies { late });
        }
        4 if fate.asks > 0 => {
            fate.asks -= 1;
            state.central(CentralInput::Checkpoint);
        }
        // The launcher does not wait for one that has not called for long.
        5 if fate.stops > 0 && there && state.has_called(host) => {
            fate.stops -= 1;
            let state = &mut state.lease_state().hosts[host];
            (state.stopped, state.troubled) = (true, true);
        }
        _ => {}
    }
}

/// Ranks compute for longer than messages take.
fn computes(state: &System, action: &Action) -> bool {
    let step = |index: usize| state.processes[index].step;
    matches!(action, Action::Advance(index) if step(*index) == ProcessStep::Computes)
}

/// Counts a rank that is about to end well.
fn note_exit(state: &mut System, action: &Action) {
    if let Action::Advance(index) | Action::ExitStatus(index, End::Exited(0)) = *action
        && state.processes[index].step == ProcessStep::MayExit
    {
        let rank = state.processes[index].instance.rank;
        state.lease_state().finished.insert(rank);
    }
}

/// One step of the hosts' links, or of a question.
fn of_links(rng: &mut Rng, state: &mut System) {
    if state.lease_state().is_asked && rng.chance(20) {
        let stored = rng.chance(80);
        state.answer(stored);
    }
    for host in 0..state.hosts.len() {
        let link = &mut state.lease_state().hosts[host];
        if link.cut && rng.below(300) == 0 {
            link.cut = false;
        }
        if link.stopped && rng.below(300) == 0 {
            link.stopped = false;
        }
        let LeasedHost {
            dropped,
            cut,
            gone,
            stopped,
            ..
        } = *link;
        if dropped && !cut && !gone && !stopped && rng.chance(20) {
            state.local(host, LocalInput::CentralLost);
        }
    }
}

fn run(seed: u64, is_unfenced: bool, shown: &mut Shown) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let hosts = rng.between(2, 4) as usize;
    let ranks = rng.between(hosts as u64, 6) as u32;
    let term = rng.between(1000, 3000);
    let terms = Terms::new(term, term + rng.below(2) * 4000);
    let failover = rng.chance(70).then(|| Failover {
        takes_in: seed.is_multiple_of(2),
        ..Failover::default()
    });
    let files = seed.is_multiple_of(2) || seed.is_multiple_of(3);
    let mut state = System::leased(hosts, ranks, terms, failover, files);
    let mut fate = Fate {
        deaths: rng.below(4) as u32,
        hosts: rng.below(3) as u32,
        cuts: rng.below(3) as u32,
        stops: rng.below(3) as u32,
        centrals: rng.below(3) as u32,
        asks: rng.below(2) as u32,
    };
    let jobs = Jobs {
        hosts,
        ranks,
        bounds: NONE,
        ..TWO
    };
    state.lease_state().is_unfenced = is_unfenced;
    state.central(CentralInput::Begin);
    for _ in 0..MOST_STEPS {
        if let Some(wrong) = state.wrong.take() {
            return Err(wrong);
        }
        if state.over.is_some() {
            break;
        }
        if rng.below(25) == 0 {
            strike(&mut rng, &mut state, &mut fate);
            continue;
        }
        of_links(&mut rng, &mut state);
        let steps = steps(&jobs, &state);
        if steps.is_empty() || rng.below(80) == 0 {
            state.ring();
            state.settle();
            continue;
        }
        let action = rng.pick(&steps).clone();
        if computes(&state, &action) && rng.chance(90) {
            continue;
        }
        note_exit(&mut state, &action);
        Jobs::perform(&mut state, action);
    }
    state.check_end();
    if let Some(wrong) = state.wrong.take() {
        return Err(wrong);
    }
    let Some(verdict) = &state.over else {
        return Err(stuck(&state));
    };
    shown.successes += u32::from(*verdict == Verdict::Success);
    shown.hosts_lost += u32::from(matches!(verdict, Verdict::HostLost { .. }));
    shown.recoveries += u32::from(state.recovered);
    let leased = state.lease_state();
    shown.region_starts += leased.region_starts;
    shown.moves += leased.moves;
    shown.lapses += leased.hosts.iter().filter(|host| host.still).count() as u32;
    Ok(())
}

fn stuck(state: &System) -> String {
    let hosts: Vec<_> = state.hosts.iter().map(|host| host.up.len()).collect();
    format!(
        "stuck at {:?}: {:?}\nprocesses {:#?}\nreports on their way {hosts:?}\n{:#?}",
        state.now(),
        state.central.view(),
        state.processes,
        state.leased,
    )
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("REJOIN_LOST_HOSTS_SEEDS") else {
        return 0..3000;
    };
    let parse = |(from, to): (&str, &str)| Some(from.parse().ok()?..to.parse().ok()?);
    let range = text.split_once("..").and_then(parse);
    range.unwrap_or_else(|| panic!("REJOIN_LOST_HOSTS_SEEDS is {text:?}, not from..to"))
}

#[test]
fn a_lost_host_ends_the_job_clearly_or_its_ranks_continue_elsewhere() {
    let mut shown = Shown::default();
    for seed in seeds() {
        run(seed, false, &mut shown).unwrap_or_else(|wrong| {
            panic!(
                "seed {seed}: {wrong}\nrepeat it with REJOIN_LOST_HOSTS_SEEDS={seed}..{}",
                seed + 1
            )
        });
    }
    println!("{shown:?}");
    if std::env::var("REJOIN_LOST_HOSTS_SEEDS").is_err() {
        assert!(
            shown.successes > 1000 && shown.hosts_lost > 500,
            "{shown:?}"
        );
        assert!(
            shown.region_starts > 700 && shown.recoveries > 400 && shown.moves > 100,
            "{shown:?}"
        );
    }
}

/// The runs find it out if a host relies on its manager to suspend its ranks.
#[test]
fn a_manager_that_alone_suspends_its_ranks_is_found_out() {
    let mut shown = Shown::default();
    let two = (0..3000).find_map(|seed| run(seed, true, &mut shown).err());
    assert!(two.is_some_and(|wrong| wrong.contains(" acts ")));
}
