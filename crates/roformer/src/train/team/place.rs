//! Which of the processes of a run this one is: what `torchrun`, `mpirun` and `srun` say in the environment.

use crate::error::{Error, Result};

/// Where rank 0 listens if nobody says otherwise: this machine alone, at the port that torch takes too.
const ADDRESS: &str = "127.0.0.1";
const PORT: u16 = 29500;

/// The most processes.
const MOST: usize = 4096;

/// The names under which launchers give the rank, the number of processes, and how many of them are on this machine.
const NAMES: [[&str; 3]; 4] = [
    ["RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"],
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"],
    ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_TASKS_PER_NODE"],
];

/// One of several processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which, from 0 on.
    pub rank: usize,
    /// How many there are.
    pub world: usize,
    /// How many of them are on this machine, as far as the launcher says.
    pub local: usize,
    /// Where rank 0 is, a name or an address.
    pub address: String,
    /// The port that rank 0 listens at.
    pub port: u16,
}

impl Place {
    /// What the environment says; `None` where this process is alone.
    pub fn of_environment() -> Result<Option<Self>> {
        Self::of(|name| std::env::var(name).ok())
    }

    /// The same of any list of variables.
    pub fn of(get: impl Fn(&'static str) -> Option<String>) -> Result<Option<Self>> {
        // A batch script of Slurm has a rank too, but it is srun that starts several processes.
        let is_said = |names: &&[&'static str; 3]| {
            get(names[1]).is_some() && (names[0] != "SLURM_PROCID" || get("SLURM_STEP_ID").is_some())
        };
        let Some(&[rank_name, world_name, local_name]) = NAMES.iter().find(is_said) else { return Ok(None) };
        let world = whole(world_name, get(world_name), 1..=MOST)?;
        if world == 1 {
            return Ok(None);
        }
        let rank = whole(rank_name, get(rank_name), 0..=world - 1)?;
        // Slurm writes `2(x3)` for two on each of three machines.
        let local = get(local_name).and_then(|text| text.split(['(', ',']).next()?.parse().ok());
        let address = get("MASTER_ADDR").filter(|address| !address.is_empty());
        let machines = get("SLURM_STEP_NUM_NODES").and_then(|text| text.parse().ok()).unwrap_or(1);
        if rank_name == "SLURM_PROCID" && machines > 1 && address.is_none() {
            let expected = "the machine of rank 0: export MASTER_ADDR=$(scontrol show hostnames | head -n 1)";
            return Err(Error::input("MASTER_ADDR", "not set", expected));
        }
        let port = match get("MASTER_PORT") {
            Some(text) => whole("MASTER_PORT", Some(text), 1..=65534)? as u16,
            None => PORT,
        };
        // torchrun listens at the port that it names, for a store of its own.
        let is_taken = get("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|text| text == "True");
        Ok(Some(Place {
            rank,
            world,
            local: local.unwrap_or(1).clamp(1, world),
            address: address.unwrap_or_else(|| ADDRESS.into()),
            port: port + u16::from(is_taken),
        }))
    }
}

fn whole(name: &'static str, text: Option<String>, range: std::ops::RangeInclusive<usize>) -> Result<usize> {
    let number = text.as_deref().and_then(|text| text.trim().parse().ok());
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        let value = text.map_or("not set".into(), |text| format!("`{}`", crate::weights::brief(&text)));
        let expected = format!("a number from {} to {}, as launchers set it", range.start(), range.end());
        Error::input(name, value, expected)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(list: &[(&str, &str)]) -> Result<Option<Place>> {
        Place::of(|name| list.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn every_launcher_is_read() {
        let at = |rank, world, local, address: &str, port| {
            Some(Place { rank, world, local, address: address.into(), port })
        };
        assert_eq!(place(&[]).unwrap(), None);
        assert_eq!(place(&[("RANK", "0"), ("WORLD_SIZE", "1")]).unwrap(), None);
        let mut torch = vec![
            ("RANK", "2"),
            ("WORLD_SIZE", "4"),
            ("LOCAL_WORLD_SIZE", "2"),
            ("MASTER_ADDR", "10.0.0.1"),
            ("MASTER_PORT", "4321"),
        ];
        assert_eq!(place(&torch).unwrap(), at(2, 4, 2, "10.0.0.1", 4321));
        torch.push(("TORCHELASTIC_USE_AGENT_STORE", "True"));
        assert_eq!(place(&torch).unwrap(), at(2, 4, 2, "10.0.0.1", 4322));
        let mpi = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ];
        assert_eq!(place(&mpi).unwrap(), at(1, 2, 2, "127.0.0.1", 29500));
        assert_eq!(place(&[("PMI_RANK", "3"), ("PMI_SIZE", "4")]).unwrap(), at(3, 4, 1, "127.0.0.1", 29500));
        let slurm = [
            ("SLURM_PROCID", "5"),
            ("SLURM_STEP_NUM_TASKS", "6"),
            ("SLURM_TASKS_PER_NODE", "2(x3)"),
            ("MASTER_ADDR", "node1"),
            ("SLURM_STEP_NUM_NODES", "3"),
            ("SLURM_STEP_ID", "0"),
        ];
        assert_eq!(place(&slurm).unwrap(), at(5, 6, 2, "node1", 29500));
        // The script around srun is one process.
        assert_eq!(place(&slurm[..5]).unwrap(), None);
        let alone: Vec<_> = slurm.into_iter().filter(|(name, _)| *name != "MASTER_ADDR").collect();
        assert!(place(&alone).unwrap_err().to_string().contains("scontrol"));
    }

    #[test]
    fn what_no_launcher_says_is_refused() {
        for (list, says) in [
            (&[("WORLD_SIZE", "2")][..], "RANK is not set"),
            (&[("WORLD_SIZE", "two"), ("RANK", "0")], "WORLD_SIZE is `two`"),
            (&[("WORLD_SIZE", "0"), ("RANK", "0")], "WORLD_SIZE is `0`"),
            (&[("WORLD_SIZE", "99999"), ("RANK", "0")], "from 1 to 4096"),
            (&[("WORLD_SIZE", "2"), ("RANK", "2")], "RANK is `2`; expected a number from 0 to 1"),
            (&[("WORLD_SIZE", "2"), ("RANK", "1"), ("MASTER_PORT", "70000")], "MASTER_PORT is `70000`"),
        ] {
            let said = place(list).unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
    }
}
