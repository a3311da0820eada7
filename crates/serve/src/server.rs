//! Listening, and ending.

use crate::ask::{Shared, State};
use crate::batch::Shape;
use crate::metrics::Metrics;
use crate::models::{Model, Models};
use crate::settings::Settings;
use crate::{routes, worker};
use roformer_http::GRACE;
use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, watch};

/// A server that has its address and does not serve yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    state: Shared,
    stop: watch::Sender<bool>,
}

/// What ends a server.
#[derive(Clone)]
pub struct Handle(watch::Sender<bool>);

impl Handle {
    /// Nobody more may connect, what has been asked is answered, and [`Server::run`] returns.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Takes its address; port 0 for any that is free.
    pub fn bind(settings: Settings, models: Vec<Model>) -> Result<Server> {
        if models.iter().any(|model| model.replicas.is_empty()) || models.is_empty() {
            return Err(Error::new(ErrorKind::InvalidInput, "there has to be a model, on a device"));
        }
        let listener = TcpListener::bind(settings.address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let readers = rayon::ThreadPoolBuilder::new()
            .num_threads(settings.tokenization_workers.unwrap_or(0))
            .thread_name(|index| format!("reader-{index}"))
            // Whoever waits sees that nothing comes; the others go on.
            .panic_handler(|_| tracing::error!("reading texts panicked"))
            .build()
            .map_err(Error::other)?;
        let state = State {
            places: Arc::new(Semaphore::new(settings.max_concurrent_requests.min(Semaphore::MAX_PERMITS))),
            models: Models(models.into_iter().map(Arc::new).collect()),
            settings,
            metrics: Arc::new(Metrics::default()),
            readers,
            requests: 0.into(),
            is_ending: false.into(),
        };
        Ok(Server { listener, address, state: Arc::new(state), stop: watch::Sender::new(false) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What ends it.
    pub fn handle(&self) -> Handle {
        Handle(self.stop.clone())
    }

    /// Serves until it is told to stop: by its [handle](Self::handle), or by SIGTERM or SIGINT.
    pub fn run(self) -> Result<()> {
        allow_many_files();
        let workers = self.start_workers()?;
        // The cores are the models'; connections need little, and more of them where there are many cores.
        let threads = std::thread::available_parallelism().map_or(2, |cores| (cores.get() / 4).max(2));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
        let state = self.state.clone();
        let outcome = runtime.block_on(self.accept());
        // What was let in has been answered, or nobody waits for it any more.
        state.models.0.iter().for_each(|model| model.queue.close());
        runtime.shutdown_timeout(Duration::from_secs(1));
        workers.into_iter().for_each(|worker| drop(worker.join()));
        outcome
    }

    /// A thread for each device of each model.
    fn start_workers(&self) -> Result<Vec<JoinHandle<()>>> {
        let mut workers = Vec::new();
        for model in &self.state.models.0 {
            let settings = &self.state.settings;
            let texts = settings.max_batch_requests.unwrap_or(usize::MAX).max(1);
            for replica in &model.replicas {
                let tokens = replica.batch_tokens().min(settings.max_batch_tokens);
                let shape = Shape { tokens, texts, free: model.free_tokens, packs: replica.packs_texts() };
                let (model, replica, metrics) = (model.clone(), replica.clone(), self.state.metrics.clone());
                let work = move || worker::work(&replica, &model.queue, shape, &model.speed, &metrics);
                workers.push(std::thread::Builder::new().name("model".into()).spawn(work)?);
            }
        }
        Ok(workers)
    }

    async fn accept(self) -> Result<()> {
        let Server { listener, state, stop, address } = self;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let router = routes::router(state.clone());
        let stopping = stop.subscribe();
        listen_to_signals(stop);
        tracing::info!("listening at http://{address}");
        // Every connection has a sender: when all are gone, so are the connections.
        let (alive, mut ended) = mpsc::channel::<()>(1);
        let take = |stream: TcpStream| {
            let _ = stream.set_nodelay(true);
            let (router, patience) = (router.clone(), state.settings.patience);
            let (alive, mut stopping) = (alive.clone(), stopping.clone());
            tokio::spawn(async move {
                let closing = async { drop(stopping.wait_for(|stop| *stop).await) };
                roformer_http::serve(stream, router, patience, closing).await;
                drop(alive);
            });
        };
        let mut stop = stopping.clone();
        loop {
            let stream = tokio::select! {
                stream = listener.accept() => stream,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            match stream {
                Ok((stream, _)) => take(stream),
                // One that broke off at once, or too many at a time: the next may be had in a moment.
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        tracing::info!("ending: what has been asked is answered first");
        // Those that have connected already, and that nobody has looked at, may have asked.
        let listener = listener.into_std()?;
        while let Ok((stream, _)) = listener.accept() {
            if stream.set_nonblocking(true).is_ok()
                && let Ok(stream) = TcpStream::from_std(stream)
            {
                take(stream);
            }
        }
        drop(listener);
        drop(alive);
        // Those that are connected are let in a moment longer.
        if tokio::time::timeout(GRACE, ended.recv()).await.is_err() {
            state.is_ending.store(true, Ordering::Relaxed);
            let _ = tokio::time::timeout(state.settings.deadline, ended.recv()).await;
        }
        tracing::info!("ended");
        Ok(())
    }
}

/// Stops at the first signal to end; a second one ends the program at once, as it would without a server.
fn listen_to_signals(stop: watch::Sender<bool>) {
    tokio::spawn(async move {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
            let Ok(mut interrupt) = signal(SignalKind::interrupt()) else { return };
            for is_second in [false, true] {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                if is_second {
                    std::process::exit(130);
                }
                stop.send_replace(true);
            }
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.send_replace(true);
        }
    });
}

/// Lets as many files be open as the system allows this user: each connection is one, and the usual 1024 are soon held by idle ones.
fn allow_many_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
