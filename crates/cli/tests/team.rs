//! `roformer train` on several processes, as a launcher starts them.

mod common;

use common::{Folder, NETWORK, command, refused};
use std::fs;
use std::net::TcpListener;
use std::process::{Child, Output};
use std::time::Duration;

/// A port that nobody listens at.
fn port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// All ranks of a run, started with the same flags; `more` are each rank's own.
fn start(world: usize, flags: &[&str], more: &[&[&str]]) -> Vec<Child> {
    let (port, world) = (port(), world.to_string());
    let rank = |rank: usize| {
        let own = more.get(rank).copied().unwrap_or_default();
        let mut command = command(&[&["train"], flags, own].concat());
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", &world).env("MASTER_PORT", &port);
        command.env("LOCAL_WORLD_SIZE", &world).env_remove("TORCHELASTIC_USE_AGENT_STORE");
        command.spawn().unwrap()
    };
    (0..world.parse().unwrap()).map(rank).collect()
}

fn wait(children: Vec<Child>) -> Vec<Output> {
    children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Files that must have the same bytes; metrics without their times.
fn results(out: &str) -> Vec<Vec<u8>> {
    let metrics = fs::read_to_string(format!("{out}/metrics.jsonl")).unwrap();
    let losses: Vec<String> = metrics
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {} {}", line["step"], line["loss"], line["validation_loss"])
        })
        .collect();
    assert!(losses.len() > 3);
    let read = |name: &str| fs::read(format!("{out}/{name}")).unwrap();
    let step = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let state = step.into_iter().find(|name| name.starts_with("state-")).unwrap();
    vec![losses.join("\n").into_bytes(), read(&state), read("best/model.safetensors"), state.into_bytes()]
}

fn data(folder: &Folder) -> String {
    let path = folder.path("text.txt");
    fs::write(&path, "Rank by rank the sums go round; the order is that of one process.\n".repeat(60))
        .unwrap();
    path
}

/// One process, two, three (which do not divide the batches) and four end with the same bytes; so does a run that is stopped on
/// four and goes on on two.
#[test]
fn any_number_of_processes_gives_the_same_bits() {
    let folder = Folder::new("team");
    let data = data(&folder);
    let flags = |out, steps| {
        let rest = [
            "--accumulate",
            "4",
            "--eval-every",
            "5",
            "--save-every",
            "5",
            "--dropout",
            "0.1",
            "--steps",
            steps,
        ];
        [&["--data", &data, "--out", out][..], &NETWORK, &rest].concat()
    };
    let one = folder.path("one");
    let alone = command(&[&["train"], &flags(&one, "12")[..]].concat()).output().unwrap();
    assert!(alone.status.success(), "{}", error(&alone));
    let outs = [2, 3, 4].map(|world| (world, folder.path(&format!("of-{world}"))));
    for (world, out) in &outs {
        for (rank, output) in wait(start(*world, &flags(out, "12"), &[])).iter().enumerate() {
            assert!(output.status.success(), "{}", error(output));
            let is_said = error(output).contains(&format!("on {world} processes"));
            // Rank 0 speaks for all.
            assert_eq!((is_said, output.stdout.is_empty()), (rank == 0, rank > 0), "{}", error(output));
        }
        assert!(results(&one) == results(out), "on {world}");
    }
    // The same again, to the bit; its lines are those of one process, and so is the folder.
    let again = folder.path("again");
    wait(start(4, &flags(&again, "12"), &[]));
    assert!(results(&one) == results(&again));
    let names = |out: &str| {
        let mut names: Vec<_> = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&one), names(&again));
}

/// A rank that is killed ends all others, with the last checkpoint whole; another number of ranks goes on from it to the bytes of a
/// run that nobody killed.
#[cfg(unix)]
#[test]
fn a_lost_rank_ends_the_run_and_any_number_goes_on() {
    let folder = Folder::new("team-lost");
    let data = data(&folder);
    let (whole, out) = (folder.path("whole"), folder.path("out"));
    let flags = |out, steps| {
        let rest = [
            "--accumulate",
            "4",
            "--eval-every",
            "50",
            "--save-every",
            "10",
            "--threads",
            "1",
            "--steps",
            steps,
        ];
        [&["--data", &data, "--out", out][..], &NETWORK, &rest].concat()
    };
    let mut ranks = start(3, &flags(&out, "100000"), &[]);
    let saved = |out: &str| {
        let state = fs::read_to_string(format!("{out}/state.json")).unwrap_or_default();
        let state: serde_json::Value = serde_json::from_str(&state).unwrap_or_default();
        state["step"].as_u64().unwrap_or(0)
    };
    while saved(&out) < 20 {
        assert!(ranks[0].try_wait().unwrap().is_none(), "rank 0 has ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    ranks[2].kill().unwrap();
    // There are hours of steps left: that the others end at all is because of it.
    let outputs = wait(ranks);
    for output in &outputs[..2] {
        assert_eq!(output.status.code(), Some(1), "{}", error(output));
        assert!(error(output).contains("rank 2 of 3 was lost"), "{}", error(output));
    }
    let step = saved(&out);
    let last = error(&outputs[0]).lines().last().unwrap().to_string();
    assert!(
        last.contains(&format!("the checkpoint of step {step} is kept: go on with --out {out} --resume")),
        "{last}"
    );
    assert_eq!(error(&outputs[1]).lines().count(), 1);

    // The same with an end that can be reached: schedules depend on it. Begun on four, gone on with on two, ended on three.
    let first = folder.path("first");
    let sixty = |out| flags(out, "60");
    let alone = command(&[&["train"], &sixty(&whole)[..]].concat()).output().unwrap();
    assert!(alone.status.success(), "{}", error(&alone));
    let resumed = ["--out", &first, "--resume"];
    for (world, step, flags) in [(4, 10, &sixty(&first)[..]), (2, 30, &resumed)] {
        let mut ranks = start(world, flags, &[]);
        while saved(&first) < step && ranks[0].try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        ranks[1].kill().unwrap();
        wait(ranks);
        assert!(saved(&first) >= step);
    }
    let resumed = wait(start(3, &resumed, &[]));
    assert!(resumed.iter().all(|output| output.status.success()), "{}", error(&resumed[0]));
    assert!(results(&whole) == results(&first));
}

/// Who waits for the others says so, and Ctrl-C ends it: nobody else would.
#[cfg(unix)]
#[test]
fn who_waits_for_the_others_can_be_stopped() {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::ExitStatusExt;
    let folder = Folder::new("team-waits");
    let (data, out) = (data(&folder), folder.path("out"));
    for (rank, says) in
        [("0", "waiting for the other processes, 1 in all"), ("1", "rank 1: waiting for rank 0")]
    {
        let mut command = command(&["train", "--data", &data, "--out", &out, "--accumulate", "2"]);
        command.env("RANK", rank).env("WORLD_SIZE", "2").env("MASTER_ADDR", "127.0.0.1");
        command.env("MASTER_PORT", port()).env_remove("TORCHELASTIC_USE_AGENT_STORE");
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains(says), "{line}");
        let kill =
            std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        // It would wait for ten minutes.
        assert_eq!(child.wait().unwrap().signal(), Some(2), "rank {rank}");
        assert!(!std::path::Path::new(&out).exists());
    }
}

#[test]
fn ranks_that_do_not_fit_are_refused() {
    let folder = Folder::new("team-refused");
    let data = data(&folder);
    let out = folder.path("out");
    let flags = [&["--data", &data, "--out", &out, "--accumulate", "2"][..], &NETWORK].concat();
    let outputs = wait(start(2, &flags, &[&["--lr", "0.001"], &["--lr", "0.002"]]));
    for output in &outputs {
        assert_eq!(output.status.code(), Some(1));
        let says = "rank 1 was started with `0.002` after `--lr`, rank 0 with `0.001`";
        assert!(error(output).contains(says), "{}", error(output));
        assert_eq!(error(output).lines().count(), 1, "{}", error(output));
    }
    // Two processes have no third batch; a GPU is not for several. Nothing is left of such runs.
    let spare = folder.path("spare");
    for (more, says) in [
        (&["--accumulate", "1"][..], "--accumulate is 1; expected at least 2"),
        (&["--accumulate", "2", "--device", "cuda"], "--device is cuda with 2 processes; expected cpu"),
    ] {
        let flags = [&["--data", &data, "--out", &spare][..], &NETWORK, more].concat();
        for output in wait(start(2, &flags, &[])) {
            assert_eq!(output.status.code(), Some(2));
            assert!(error(&output).contains(says), "{}", error(&output));
        }
        assert!(!fs::exists(&spare).unwrap());
    }
    // A launcher that says half of it.
    let output =
        command(&["train", "--data", &data, "--out", &spare]).env("WORLD_SIZE", "2").output().unwrap();
    assert!(error(&output).contains("RANK is not set"), "{}", error(&output));
    refused(&["train", "--data", &data], &["--out"]);
}
