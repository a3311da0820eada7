//! Texts that wait for a model, in turns between clients.

use crate::batch::{Shape, pick};
use crate::replica::Answer;
use roformer::pipeline::Pending;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A text that waits.
pub struct Job {
    pub pending: Pending<Answer>,
    /// Who asks.
    pub client: IpAddr,
    /// Which request it is of.
    pub request: u64,
    pub entered: Instant,
    pub reply: oneshot::Sender<Done>,
}

/// A text that has been run.
pub struct Done {
    pub answer: roformer::Result<Answer>,
    pub queued: Duration,
    pub ran: Duration,
}

/// Texts that wait. Clients take turns, whoever asks for how much; the texts of one client stay in their order. Which texts run
/// together with the one whose turn it is, is chosen by their lengths among those that would follow soon.
#[derive(Default)]
pub struct Queue {
    lanes: Mutex<Lanes>,
    arrived: Condvar,
}

#[derive(Default)]
struct Lanes {
    /// The texts of each client that has any.
    jobs: HashMap<IpAddr, VecDeque<Job>>,
    /// These clients, from the one whose turn it is on.
    turns: VecDeque<IpAddr>,
    is_closed: bool,
    /// Tokens that wait.
    tokens: usize,
}

/// Texts that are looked at for a batch.
const WINDOW: usize = 512;

impl Queue {
    /// Adds the texts of a request. They come back if the queue is closed.
    pub fn push(&self, jobs: Vec<Job>) -> Result<(), Vec<Job>> {
        let mut lanes = self.lock();
        if lanes.is_closed {
            return Err(jobs);
        }
        for job in jobs {
            let client = job.client;
            lanes.tokens += job.pending.tokens();
            let lane = lanes.jobs.entry(client).or_default();
            lane.push_back(job);
            if lane.len() == 1 {
                lanes.turns.push_back(client);
            }
        }
        self.arrived.notify_one();
        Ok(())
    }

    /// The next batch; waits for one. `None` once the queue is closed and empty.
    pub fn next(&self, shape: Shape) -> Option<Vec<Job>> {
        let mut lanes = self.lock();
        loop {
            let batch = lanes.take(shape);
            if !batch.is_empty() {
                if !lanes.turns.is_empty() {
                    // For a model on several devices: the next is not asleep while something waits.
                    self.arrived.notify_one();
                }
                return Some(batch);
            }
            if lanes.is_closed {
                return None;
            }
            lanes = self.arrived.wait(lanes).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes the texts of a request out: nobody waits for them any more.
    pub fn leave(&self, request: u64, client: IpAddr) {
        let lanes = &mut *self.lock();
        if let Some(lane) = lanes.jobs.get_mut(&client) {
            let tokens = &mut lanes.tokens;
            lane.retain(|job| {
                let stays = job.request != request;
                *tokens -= if stays { 0 } else { job.pending.tokens() };
                stays
            });
        }
        lanes.drop_empty();
    }

    /// How many texts wait, and their tokens.
    pub fn size(&self) -> (usize, usize) {
        let lanes = self.lock();
        (lanes.jobs.values().map(VecDeque::len).sum(), lanes.tokens)
    }

    /// Nothing more comes in; what waits still runs.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    fn take(&mut self, shape: Shape) -> Vec<Job> {
        // Round by round, a text of each client: the order in which they would run one by one.
        let mut window = Vec::new();
        for round in 0.. {
            let before = window.len();
            for client in &self.turns {
                if let Some(job) = self.jobs.get(client).and_then(|lane| lane.get(round)) {
                    window.push((*client, round, job.pending.tokens()));
                }
            }
            if window.len() == before || window.len() >= WINDOW {
                break;
            }
        }
        let lengths: Vec<usize> = window.iter().map(|&(_, _, tokens)| tokens).collect();
        let mut picked: Vec<(IpAddr, usize)> =
            pick(&lengths, shape).into_iter().map(|index| (window[index].0, window[index].1)).collect();
        // From the back of each lane, so that places stay what they are.
        picked.sort_unstable_by_key(|&(_, round)| std::cmp::Reverse(round));
        let jobs: Vec<Job> = picked
            .into_iter()
            .filter_map(|(client, round)| self.jobs.get_mut(&client)?.remove(round))
            .collect();
        self.tokens -= jobs.iter().map(|job| job.pending.tokens()).sum::<usize>();
        if !self.turns.is_empty() {
            self.turns.rotate_left(1);
        }
        self.drop_empty();
        jobs
    }

    fn drop_empty(&mut self) {
        self.jobs.retain(|_, lane| !lane.is_empty());
        let jobs = &self.jobs;
        self.turns.retain(|client| jobs.contains_key(client));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roformer::Pipeline;
    use roformer::pipeline::Embed;

    const ONE: Shape = Shape { tokens: 1 << 20, texts: 1, free: 0, packs: false };

    fn job(pipeline: &Pipeline, text: &str, client: u8, request: u64) -> Job {
        let pending = pipeline.reader().embed_all(&[text], Embed::default()).remove(0).unwrap();
        Job {
            pending: pending.map(|vector| Box::new(vector) as Answer),
            client: IpAddr::from([127, 0, 0, client]),
            request,
            entered: Instant::now(),
            reply: oneshot::channel().0,
        }
    }

    fn pipeline() -> Pipeline {
        Pipeline::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/models/tiny-sim")).unwrap()
    }

    fn order(queue: &Queue) -> Vec<u64> {
        queue.close();
        std::iter::from_fn(|| queue.next(ONE)).flatten().map(|job| job.request).collect()
    }

    #[test]
    fn clients_take_turns() {
        let (pipeline, queue) = (pipeline(), Queue::default());
        let many = (0..4).map(|request| job(&pipeline, "广州", 1, request)).collect();
        assert!(queue.push(many).is_ok());
        assert!(queue.push(vec![job(&pipeline, "深圳", 2, 10), job(&pipeline, "深圳", 2, 11)]).is_ok());
        assert!(queue.push(vec![job(&pipeline, "北京", 3, 20)]).is_ok());
        assert_eq!(queue.size().0, 7);
        assert_eq!(order(&queue), [0, 10, 20, 1, 11, 2, 3]);
        assert_eq!(queue.size(), (0, 0));
    }

    #[test]
    fn a_request_that_is_given_up_leaves() {
        let (pipeline, queue) = (pipeline(), Queue::default());
        for request in [1, 2, 1, 3] {
            assert!(queue.push(vec![job(&pipeline, "广州", 1, request)]).is_ok());
        }
        queue.leave(1, IpAddr::from([127, 0, 0, 1]));
        queue.leave(9, IpAddr::from([127, 0, 0, 9]));
        assert_eq!(queue.size().0, 2);
        assert_eq!(order(&queue), [2, 3]);
        assert!(queue.push(vec![job(&pipeline, "广州", 1, 5)]).is_err());
    }

    #[test]
    fn texts_of_one_length_run_together() {
        let (pipeline, queue) = (pipeline(), Queue::default());
        let long = "广州和深圳哪个好？".repeat(20);
        let texts = [(1, long.as_str()), (2, "广州"), (3, "深圳"), (4, long.as_str()), (5, "北京")];
        queue.push(texts.map(|(request, text)| job(&pipeline, text, 1, request)).into()).ok().unwrap();
        let shape = Shape { tokens: 4096, texts: 100, ..ONE };
        let batch = || {
            let mut batch: Vec<u64> = queue.next(shape).unwrap().iter().map(|job| job.request).collect();
            batch.sort_unstable();
            batch
        };
        assert_eq!(batch(), [1, 4]);
        assert_eq!(batch(), [2, 3, 5]);
    }
}
