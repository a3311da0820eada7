//! `roformer plot`: the figures of rotary embedding as files.

use crate::error::{Failure, Outcome};
use crate::input;
use clap::{Args, Subcommand};
use roformer_explore::plot::{
    Angle, Decay, Format, Look, Plot, Receptive, Rotation, Scores, Similarity, Subject, Table, Vector,
    Wavelengths,
};
use std::io::Write;
use std::path::PathBuf;

/// Draw what rotary embedding does: decay, wavelengths, vector, rotation, scores, similarity, table or receptive
///
/// Writes one picture, .svg or .png by its name; rotation also as a .gif that moves. Text is drawn as outlines, so that a
/// picture looks the same everywhere, and the same flags give the same bytes.
#[derive(Args)]
#[command(after_help = "Examples:\n  roformer plot decay -o decay.svg\n  \
    roformer plot wavelengths --config model/config.json --context 131072 -o wavelengths.png\n  \
    roformer plot rotation -o rotation.gif --dark")]
pub struct Arguments {
    #[command(subcommand)]
    figure: Figure,
}

#[derive(Subcommand)]
enum Figure {
    /// How scores fall with the distance: the paper's bound, like with like, and random vectors
    ///
    /// Above, the RoFormer paper's bound on a score (its figure of long-term decay). Below, two scores under it: of a query
    /// and a key that are alike, with the first distance at which it is negative, and of random ones, whose score is 0 on
    /// average at every distance. Decay is a property of the bound, not of every score.
    #[command(after_help = "Examples:\n  roformer plot decay -o decay.svg\n  \
        roformer plot decay --base 500000 --reach 131072 -o decay.png\n  \
        roformer plot decay --config model/config.json -o decay.svg")]
    Decay {
        #[command(flatten)]
        model: Model,
        /// The furthest distance [default: 4096, or as far as the model of --config reads]
        #[arg(long, value_name = "N")]
        reach: Option<u64>,
        #[command(flatten)]
        output: Output,
    },
    /// How many positions a turn of each pair takes, and what rules for longer contexts do to it
    ///
    /// Above, the wavelength of every pair, with lines at the trained and the target length: a pair above the line of the
    /// trained length has never completed a turn. Below, how much slower each pair turns. One line per rule: none or the
    /// model's own, linear, NTK-aware, YaRN.
    #[command(after_help = "Examples:\n  roformer plot wavelengths -o wavelengths.svg\n  \
        roformer plot wavelengths --trained 8192 --base 500000 --context 131072 -o wavelengths.png\n  \
        roformer plot wavelengths --config model/config.json -o wavelengths.svg")]
    Wavelengths {
        #[command(flatten)]
        model: Model,
        /// The length of training [default: 4096, or what --config says]
        #[arg(long, value_name = "N")]
        trained: Option<u64>,
        /// The target length [default: as far as the model reads, or eight times the length of training]
        #[arg(long, value_name = "N")]
        context: Option<u64>,
        #[command(flatten)]
        output: Output,
    },
    /// A vector of two features before and after a turn: what rotary embedding does to one pair
    ///
    /// Turned counter-clockwise by an angle, or by m·θ: as a pair of frequency θ is turned at position m.
    #[command(after_help = "Examples:\n  roformer plot vector -o vector.svg\n  \
        roformer plot vector --vector 2,1 --angle -120 -o vector.png\n  \
        roformer plot vector --vector 1,0.5 --theta 0.1 --position 12 -o vector.svg")]
    Vector {
        /// The two features
        #[arg(
            long,
            value_name = "X,Y",
            default_value = "1,0",
            value_delimiter = ',',
            allow_hyphen_values = true
        )]
        vector: Vec<f64>,
        /// The angle, in degrees
        #[arg(long, value_name = "DEGREES", default_value_t = 90.0, allow_hyphen_values = true)]
        angle: f64,
        /// The frequency θ in radians, to turn by m·θ instead
        #[arg(
            long,
            value_name = "RADIANS",
            allow_hyphen_values = true,
            requires = "position",
            conflicts_with = "angle"
        )]
        theta: Option<f64>,
        /// The position m
        #[arg(long, value_name = "M", requires = "theta")]
        position: Option<u64>,
        #[command(flatten)]
        output: Output,
    },
    /// Pairs as clocks: each turned by the position times its own frequency; as a .gif they turn
    ///
    /// Every pair of features is a vector in a plane, and a position turns it by m·θⱼ: the first pair fast, later ones more
    /// and more slowly. Dots are the positions before; the dashed line is position 0.
    #[command(after_help = "Examples:\n  roformer plot rotation -o rotation.gif\n  \
        roformer plot rotation --pairs 0 -o one.gif\n  \
        roformer plot rotation --dim 8 --pairs 0,1,2,3 --position 100 -o rotation.svg")]
    Rotation {
        #[command(flatten)]
        model: Model,
        /// Which pairs, separated by commas [default: four, an eighth of all pairs apart]
        #[arg(long, value_name = "J,…", value_delimiter = ',')]
        pairs: Vec<usize>,
        /// The position; in a .gif the last one, counted from 0
        #[arg(long, value_name = "M", default_value_t = 32)]
        position: u64,
        /// How many frames a .gif has [default: three per position]
        #[arg(long, value_name = "N")]
        frames: Option<usize>,
        #[command(flatten)]
        output: Output,
    },
    /// Scores of all positions with all: rotary embedding beside ALiBi and T5
    ///
    /// Four matrices of a query at m and a key at n. Rotary embedding with a query and a key that are alike, and with two
    /// random ones, the same at all positions; what ALiBi adds to a score; in which bucket T5 looks up what it adds. All are
    /// the same along diagonals, because they depend on m − n alone; only two of the four fall with the distance.
    #[command(after_help = "Examples:\n  roformer plot scores -o scores.svg\n  \
        roformer plot scores --length 128 --seed 7 -o scores.png")]
    Scores {
        #[command(flatten)]
        model: Model,
        /// How many positions
        #[arg(long, value_name = "N", default_value_t = 64)]
        length: usize,
        /// The seed of the random query and key
        #[arg(long, value_name = "S", default_value_t = 1)]
        seed: u64,
        #[command(flatten)]
        output: Output,
    },
    /// How alike the sinusoidal position codes of the original Transformer are
    ///
    /// The inner product of every code with every other. It depends on the distance alone, falls near the diagonal, and does
    /// not tend to zero.
    #[command(after_help = "Examples:\n  roformer plot similarity -o similarity.svg\n  \
        roformer plot similarity --dim 512 --length 256 -o similarity.png")]
    Similarity {
        /// Features of a code
        #[arg(long, value_name = "D", default_value_t = 128)]
        dim: usize,
        /// How many positions
        #[arg(long, value_name = "N", default_value_t = 128)]
        length: usize,
        #[command(flatten)]
        output: Output,
    },
    /// The table of cosines and sines by position and pair
    ///
    /// What queries and keys are turned with. Fast pairs on the left alternate from position to position; slow pairs on the
    /// right hardly change.
    #[command(after_help = "Examples:\n  roformer plot table -o table.svg\n  \
        roformer plot table --config model/config.json --length 256 -o table.png")]
    Table {
        #[command(flatten)]
        model: Model,
        /// How many positions
        #[arg(long, value_name = "N", default_value_t = 64)]
        length: usize,
        #[command(flatten)]
        output: Output,
    },
    /// The two parts of a score under a receptive field, a′ and b′, and the frequencies that make them
    ///
    /// Every frequency θⱼ becomes α/10000^ρ + (1−α)·θⱼ. Above, by distance: a′ and b′, the real and the imaginary part of the
    /// sum with the frequencies (1−α)·θⱼ; the score a* that they make; and the score without the rule. Below, the frequencies
    /// before and after. b′ is the Hilbert transform of a′ for α below 1 alone.
    #[command(after_help = "Examples:\n  roformer plot receptive -o receptive.svg\n  \
        roformer plot receptive --alpha 0.25 --rho 1 --seed 7 -o receptive.png")]
    Receptive {
        /// How far the frequencies are moved
        #[arg(long, value_name = "A", default_value_t = 0.5)]
        alpha: f64,
        /// Towards 10000^(−R)
        #[arg(long, value_name = "R", default_value_t = 0.5)]
        rho: f64,
        /// Features of a head
        #[arg(long, value_name = "D", default_value_t = 128)]
        dim: usize,
        /// The base of the frequencies
        #[arg(long, value_name = "B", default_value_t = 10_000.0)]
        base: f64,
        /// The furthest distance
        #[arg(long, value_name = "N", default_value_t = 1000.0)]
        reach: f64,
        /// The seed of a random query and key [default: all pairs alike and of length 1]
        #[arg(long, value_name = "S")]
        seed: Option<u64>,
        #[command(flatten)]
        output: Output,
    },
}

/// Whose rotary embedding.
#[derive(Args)]
struct Model {
    /// Features of a head
    #[arg(long, value_name = "D", default_value_t = 128)]
    dim: usize,
    /// The base of the frequencies
    #[arg(long, value_name = "B", default_value_t = 10_000.0)]
    base: f64,
    /// The α of a receptive field: every frequency θⱼ becomes α/10000^ρ + (1−α)·θⱼ
    #[arg(long, value_name = "A", requires = "rho")]
    alpha: Option<f64>,
    /// The ρ of a receptive field
    #[arg(long, value_name = "R", requires = "alpha")]
    rho: Option<f64>,
    /// Take the rotary embedding of this config.json, of a folder that holds one, or of standard input (-)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dim", "base", "alpha", "rho"])]
    config: Option<PathBuf>,
    /// The layer type to use, where layers of the model have different rotary embeddings
    #[arg(long, value_name = "TYPE", requires = "config")]
    layer_type: Option<String>,
}

impl Model {
    fn subject(&self) -> Result<Subject, Failure> {
        let Some(path) = &self.config else {
            return Ok(match (self.alpha, self.rho) {
                (Some(alpha), Some(rho)) => Subject::field(self.dim, self.base, alpha, rho)?,
                _ => Subject::plain(self.dim, self.base)?,
            });
        };
        let bytes = input::config(path)?;
        Subject::of_config(&bytes, self.layer_type.as_deref())
            .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
    }
}

/// Where a picture goes, and how it looks.
#[derive(Args)]
struct Output {
    /// The file to write; its name ends in .svg, .png or, for rotation, .gif
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// How wide the picture is, in pixels; it is scaled as a whole
    #[arg(long, value_name = "PIXELS")]
    width: Option<u32>,
    /// Light on dark
    #[arg(long)]
    dark: bool,
}

pub fn run(arguments: Arguments) -> Outcome {
    let (plot, output) = match arguments.figure {
        Figure::Decay { model, reach, output } => {
            (Plot::Decay(Decay { subject: model.subject()?, reach }), output)
        }
        Figure::Wavelengths { model, trained, context, output } => {
            let subject = model.subject()?;
            let trained = trained.or(model.config.is_none().then_some(4096));
            if let (Some(path), None, None, None) =
                (&model.config, trained, subject.original, subject.longest)
            {
                let why = "it does not say the length of training; give it with --trained";
                return Err(Failure::Input(format!("{}: {why}", path.display())));
            }
            (Plot::Wavelengths(Wavelengths { subject, trained, context }), output)
        }
        Figure::Vector { vector, angle, theta, position, output } => {
            let vector = <[f64; 2]>::try_from(vector.as_slice()).map_err(|_| {
                Failure::Input(format!("--vector has {} numbers; expected two, such as 1,0", vector.len()))
            })?;
            let angle = match (theta, position) {
                (Some(theta), Some(position)) => Angle::Position { position, theta },
                _ => Angle::Degrees(angle),
            };
            (Plot::Vector(Vector { vector, angle }), output)
        }
        Figure::Rotation { model, pairs, position, frames, output } => {
            (Plot::Rotation(Rotation { subject: model.subject()?, pairs, position, frames }), output)
        }
        Figure::Scores { model, length, seed, output } => {
            (Plot::Scores(Scores { subject: model.subject()?, length, seed }), output)
        }
        Figure::Similarity { dim, length, output } => (Plot::Similarity(Similarity { dim, length }), output),
        Figure::Table { model, length, output } => {
            (Plot::Table(Table { subject: model.subject()?, length }), output)
        }
        Figure::Receptive { alpha, rho, dim, base, reach, seed, output } => {
            (Plot::Receptive(Receptive { alpha, rho, dim, base, reach, seed }), output)
        }
    };
    let format = Format::of(&output.output)?;
    let bytes = plot.render(format, Look { width: output.width, is_dark: output.dark })?;
    roformer::files::write(&output.output, &bytes)?;
    let size = bytes.len().div_ceil(1000);
    Ok(writeln!(std::io::stdout(), "{size} kB written to {}", output.output.display())?)
}
