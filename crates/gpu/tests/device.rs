//! What the runtime promises, on a GPU; without one every test says that it was skipped, and why.

use gpu::testing::or_skip;
use gpu::{Block, Device, Error, Module, Pinned, Queue, Size, Span};
use std::sync::Arc;

const SOURCE: &str = "extern \"C\" __global__ void add(float *x, float more, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] += more;
}";

fn queue() -> Option<Arc<Queue>> {
    or_skip(Device::new(0).and_then(|device| Queue::new(&device))).map(Arc::new)
}

#[test]
fn a_kernel_outlives_the_module_it_was_found_in() {
    let Some(queue) = queue() else { return };
    let module = or_skip(
        Module::compile(queue.device(), SOURCE, &[])
            .and_then(|module| module.ok_or_else(|| Error::NoDevice("NVRTC is not found".into()))),
    );
    let Some(module) = module else { return };
    let kernel = module.function("add").unwrap();
    assert!(module.function("subtract").is_err());
    drop(module);
    kernel.allow_shared(64 << 10).unwrap();
    let block = Block::zeros(&queue, 1000 * 4).unwrap();
    for size in [Size::each(1000), Size::new(0, [256, 1]), Size::each(1000).shared(64 << 10)] {
        // SAFETY: the kernel's arguments, and a block with so many numbers.
        unsafe { kernel.launch(queue.stream(), size, (block.pointer(), 1.5f32, 1000u32)) }.unwrap();
    }
    let mut numbers = [0f32; 1000];
    block.download(block.span(), &mut numbers).unwrap();
    assert_eq!(numbers, [3.0; 1000]);
    // SAFETY: no block of it runs.
    let refused = unsafe { kernel.launch(queue.stream(), Size::new(1 << 40, [1, 1]), (0u64, 0f32, 0u32)) };
    assert!(refused.unwrap_err().to_string().contains("1099511627776 blocks"));
}

#[test]
fn spans_of_other_blocks_are_refused() {
    let Some(queue) = queue() else { return };
    let (own, other) = (Block::zeros(&queue, 1024).unwrap(), Block::zeros(&queue, 1024).unwrap());
    assert!(own.holds(own.span().from(1000)) && own.holds(own.span().from(1024)));
    assert!(!own.holds(other.span()) && !own.holds(Span::new(own.pointer(), 1025)));
    let mut numbers = [1f32; 256];
    own.upload(own.span(), &numbers).unwrap();
    assert!(own.upload(other.span(), &numbers).is_err());
    assert!(own.upload(own.span().from(4), &numbers).is_err());
    assert!(own.clear(Span::new(own.pointer(), 2048)).is_err());
    own.clear(own.span().from(512)).unwrap();
    own.download(own.span(), &mut numbers).unwrap();
    assert_eq!((numbers[127], numbers[128]), (1.0, 0.0));

    let beside = Arc::new(Queue::new(queue.device()).unwrap());
    let pinned = Pinned::new(&beside, 16).unwrap();
    assert!(pinned.send(&own, own.span()).is_err(), "a block of another queue");
}

#[test]
fn bytes_are_there_once_their_copies_are() {
    let Some(queue) = queue() else { return };
    let block = Block::zeros(&queue, 1 << 28).unwrap();
    let mut pinned = Pinned::new(&queue, 1 << 20).unwrap();
    pinned.bytes().unwrap().fill(7);
    for _ in 0..50 {
        block.clear(block.span()).unwrap();
    }
    pinned.send(&block, block.span()).unwrap();
    // Waits: what is written here is not what was sent.
    pinned.bytes().unwrap().fill(9);
    let mut sent = vec![0u8; 1 << 20];
    block.download(block.span(), &mut sent).unwrap();
    assert!(sent.iter().all(|&byte| byte == 7));
    pinned.receive(&block, block.span()).unwrap();
    assert!(pinned.bytes().unwrap().iter().all(|&byte| byte == 7));
}

#[test]
fn what_is_kept_with_a_device_is_made_once() {
    let Some(queue) = queue() else { return };
    let device = queue.device();
    struct Kept(u32);
    assert_eq!(device.keep(|_| Err::<Kept, _>("no")).map(|kept| kept.0), Err("no"));
    assert_eq!(device.keep(|_| Ok::<_, ()>(Kept(1))).map(|kept| kept.0), Ok(1));
    assert_eq!(device.keep(|_| Ok::<_, ()>(Kept(2))).map(|kept| kept.0), Ok(1));
}
