//! rope-burn on a fused backend beside its own kernels: values and gradients.
//!
//!     cargo run --release

use burn::remote::RemoteHost;
use burn::server::{RemoteServer, WebSocketTransport};
use burn::tensor::{DType, Device, Int, Tensor};
use rope_burn::rotary::{Pairing, Rope, Schedule, Yarn};
use rope_burn::{Positions, RotaryEmbedding, RotaryEncodingConfig, Rows};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    std::thread::spawn(move || RemoteServer::new([Device::flex()]).serve(WebSocketTransport::new(port)));
    let host = RemoteHost::websocket(&format!("ws://127.0.0.1:{port}"));
    let fused = (0..50).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        Device::remote_options(&host).init().ok()
    });
    let fused = fused.ok_or("no server")?;
    println!("{fused:?}");

    let here = Device::flex();
    let mut checked = 0;
    for pairing in [Pairing::Half, Pairing::Interleaved, Pairing::InterleavedToHalf] {
        let rope = Rope::builder(16).rotary_dim(12).rotary_offset(2).pairing(pairing);
        let rope = rope.schedule(Schedule::Yarn(Yarn::new(4.0, 32))).build()?;
        let (a, b) = (RotaryEmbedding::new(&rope, 64, &here)?, RotaryEmbedding::new(&rope, 64, &fused)?);
        let ids = Tensor::<2, Int>::from_ints([[3, 0, 50, 1, 2], [4, 5, 6, 7, 8]], &here);
        let there = Tensor::<2, Int>::from_data(ids.to_data(), &fused);
        for rows in [
            [a.at(Positions::From(7))?, b.at(Positions::From(7))?],
            [a.at(Positions::BatchIds(&ids))?, b.at(Positions::BatchIds(&there))?],
            // Made for one device and used on the other.
            [b.at(Positions::BatchIds(&there))?, a.at(Positions::BatchIds(&ids))?],
        ] {
            for dtype in [DType::F32, DType::F64, DType::BF16] {
                checked += check(&rows, [&here, &fused], dtype)?;
            }
        }
    }
    let layers = [&here, &fused].map(|device| RotaryEncodingConfig::new(32, 16).init(device));
    let x = random(&here, DType::F32);
    let [a, b] = [x.clone(), moved(&x, &fused)];
    compare(layers[0].apply(a, 3), layers[1].apply(b, 3), DType::F32)?;
    println!("{} rotations, forward and backward, as rope's kernels on the CPU", checked + 1);
    Ok(())
}

fn random(device: &Device, dtype: DType) -> Tensor<4> {
    Tensor::random([2, 3, 5, 16], burn::tensor::Distribution::Uniform(-1.0, 1.0), (device, dtype))
}

fn moved(x: &Tensor<4>, device: &Device) -> Tensor<4> {
    Tensor::from_data(x.to_data(), (device, x.dtype()))
}

/// The same rotation by rows on both devices, twice, so that what was fused once is used again; and its gradient.
fn check(rows: &[Rows; 2], [here, fused]: [&Device; 2], dtype: DType) -> Result<usize> {
    for _ in 0..2 {
        let (x, weights) = (random(here, dtype), random(here, dtype));
        compare(rows[0].rotate(x.clone())?, rows[1].rotate(moved(&x, fused))?, dtype)?;
        let gradient = |rows: &Rows, device: &Device| -> Result<Tensor<4>> {
            let device = device.clone().autodiff();
            let x = moved(&x, &device).require_grad();
            let gradients = (rows.rotate(x.clone())? * moved(&weights, &device)).sum().backward();
            Ok(x.grad(&gradients).ok_or("no gradient")?)
        };
        compare(gradient(&rows[0], here)?, gradient(&rows[1], fused)?, dtype)?;
    }
    Ok(2)
}

fn compare(a: Tensor<4>, b: Tensor<4>, dtype: DType) -> Result<()> {
    if (a.dims(), a.dtype()) != (b.dims(), b.dtype()) {
        return Err("another shape or type".into());
    }
    // Products and sums to 1.2·√2, each rounded; bf16 is the same f32 rounded once, to neighbours at most.
    let bound = match dtype {
        DType::F64 => 1e-15,
        DType::F32 => 4e-7,
        _ => 2f64.powi(-7),
    };
    let (a, b) = (a.try_to_vec_as::<f64>()?, b.try_to_vec_as::<f64>()?);
    // NaN stays NaN, which is refused below.
    let differences = a.iter().zip(&b).map(|(a, b)| (a - b).abs());
    let worst = differences.fold(0.0, |worst: f64, x| if worst.is_nan() || x <= worst { worst } else { x });
    if worst.is_nan() || worst > bound {
        return Err(format!("{dtype:?}: off by {worst:e}").into());
    }
    Ok(())
}
