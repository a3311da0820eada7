//! The loops for AMX: eight registers of 16 rows of 64 bytes. Four hold sums of 32 rows × 32 columns, two rows of x, two of the panel.
//!
//! The instructions are written out, because the compiler knows no type for these registers.

use super::avx512::{finish, finish_int8};
use super::{Bf16, Narrow, Run, TILE_ROWS};
use crate::ops::gemm::Start;
use std::arch::asm;
use std::arch::x86_64::*;

/// Columns of a panel: two tiles of sixteen.
pub(super) const WIDTH: usize = 32;

/// Whether there are the instructions and the system lets this process use them, which it has to be asked for.
pub(super) fn is_lent() -> bool {
    // SAFETY: any x86-64 CPU has the instruction, and tells which leaves there are.
    #[allow(unused_unsafe, reason = "safe from Rust 1.92 on")]
    let (leaves, features) = unsafe { (__cpuid(0).eax, __cpuid_count(7, 0).edx) };
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    leaves >= 7 && features & (BF16 | TILE | INT8) == BF16 | TILE | INT8 && is_permitted()
}

/// Asks the system for the registers.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const REQUEST_PERMISSION: u64 = 0x1023;
    const TILE_DATA: u64 = 18;
    let answer: i64;
    // SAFETY: a call that touches no memory of this process; it changes the registers that are named.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer == 0
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// How the registers are divided: rows of 64 bytes.
#[repr(C, align(64))]
struct Layout {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

impl Layout {
    /// Sums and x with this many rows, and panels with all: what is not there is neither read nor multiplied.
    const fn new(rows: usize) -> Layout {
        let (mut bytes, mut list) = ([0; 16], [0; 16]);
        let mut index = 0;
        while index < 8 {
            bytes[index] = 64;
            list[index] = if index < 6 { rows as u8 } else { TILE_ROWS as u8 };
            index += 1;
        }
        Layout { palette: 1, start_row: 0, reserved: [0; 14], bytes, rows: list }
    }
}

/// Sums of a block, each 32 bits wide: 32 rows × 32 columns.
#[repr(align(64))]
struct Sums([[u32; WIDTH]; 2 * TILE_ROWS]);

/// What one block is made of, in bytes: rows of x, `x_step` apart, and a panel, `steps` times 64 bytes deep; where sums go, rows
/// `out_step` apart; and `steps` times [`FETCHED`] bytes that are asked for later, and not read.
struct Block {
    x: *const u8,
    x_step: usize,
    panel: *const u8,
    steps: usize,
    out: *mut u8,
    out_step: usize,
    next: *const u8,
}

/// Bytes of a panel that are multiplied at a time.
const STEP: usize = 2048;
/// Bytes of the next panel that are fetched into the second-level cache meanwhile: a few, as memory gives them. All of it is there when
/// 256 rows have been multiplied with this one.
const FETCHED: usize = 256;

/// Writes functions that sum up the products of two tiles of rows, or of one, and a panel.
macro_rules! sums {
    ($two:ident, $one:ident, $instruction:literal) => {
        /// 32 rows.
        ///
        /// # Safety
        ///
        /// 32 rows are there to be read and written; the registers are laid out for 16 rows each; there is a step.
        #[inline(always)]
        unsafe fn $two(block: &Block) {
            // SAFETY: reads `steps` times 64 bytes of 32 rows of x, and as many times 16 rows of 128 bytes of the panel; writes 32
            // rows of 128 bytes.
            unsafe {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "2:",
                    "tileloadd tmm4, [{x} + {x_step}]",
                    "tileloadd tmm6, [{panel} + {panel_step}]",
                    "tileloadd tmm7, [{panel} + {panel_step} + 64]",
                    concat!($instruction, " tmm0, tmm4, tmm6"),
                    "tileloadd tmm5, [{below} + {x_step}]",
                    concat!($instruction, " tmm1, tmm4, tmm7"),
                    concat!($instruction, " tmm2, tmm5, tmm6"),
                    concat!($instruction, " tmm3, tmm5, tmm7"),
                    "prefetcht1 [{next}]",
                    "prefetcht1 [{next} + 64]",
                    "prefetcht1 [{next} + 128]",
                    "prefetcht1 [{next} + 192]",
                    "add {x}, 64",
                    "add {below}, 64",
                    "add {panel}, {step}",
                    "add {next}, {fetched}",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{out} + {out_step}], tmm0",
                    "tilestored [{out} + {out_step} + 64], tmm1",
                    "tilestored [{out_below} + {out_step}], tmm2",
                    "tilestored [{out_below} + {out_step} + 64], tmm3",
                    x = inout(reg) block.x => _,
                    below = inout(reg) block.x.add(TILE_ROWS * block.x_step) => _,
                    panel = inout(reg) block.panel => _,
                    steps = inout(reg) block.steps => _,
                    next = inout(reg) block.next => _,
                    step = const STEP,
                    fetched = const FETCHED,
                    x_step = in(reg) block.x_step,
                    panel_step = in(reg) 4 * WIDTH,
                    out = in(reg) block.out,
                    out_below = in(reg) block.out.add(TILE_ROWS * block.out_step),
                    out_step = in(reg) block.out_step,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }

        /// 16 rows, or as many as the registers are laid out for.
        ///
        /// # Safety
        ///
        /// As above, of those rows.
        #[inline(always)]
        unsafe fn $one(block: &Block) {
            // SAFETY: as above, of those rows.
            unsafe {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "2:",
                    "tileloadd tmm4, [{x} + {x_step}]",
                    "tileloadd tmm6, [{panel} + {panel_step}]",
                    "tileloadd tmm7, [{panel} + {panel_step} + 64]",
                    concat!($instruction, " tmm0, tmm4, tmm6"),
                    concat!($instruction, " tmm1, tmm4, tmm7"),
                    "add {x}, 64",
                    "add {panel}, {step}",
                    "dec {steps}",
                    "jnz 2b",
                    "tilestored [{out} + {out_step}], tmm0",
                    "tilestored [{out} + {out_step} + 64], tmm1",
                    x = inout(reg) block.x => _,
                    panel = inout(reg) block.panel => _,
                    steps = inout(reg) block.steps => _,
                    step = const STEP,
                    x_step = in(reg) block.x_step,
                    panel_step = in(reg) 4 * WIDTH,
                    out = in(reg) block.out,
                    out_step = in(reg) block.out_step,
                    out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

sums!(sums_bf16, sums_bf16_one, "tdpbf16ps");
sums!(sums_int8, sums_int8_one, "tdpbssd");

/// Computes a run.
///
/// # Safety
///
/// The run's invariants hold, its width is `WIDTH`, and AMX is lent.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
pub(super) unsafe fn run_bf16(run: &Run<Bf16>) {
    // SAFETY: the caller's promise; sums of a row are two registers of numbers.
    unsafe {
        rows(run, sums_bf16, sums_bf16_one, run.start == Start::Zero, |panel, row, sums| {
            let at = |column| _mm512_loadu_ps(sums.as_ptr().add(column).cast());
            finish(panel, row, &[at(0), at(16)]);
        });
    }
}

/// Computes a run.
///
/// # Safety
///
/// The run's invariants hold, its width is `WIDTH`, and AMX is lent.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
pub(super) unsafe fn run_int8(run: &Run<i8>) {
    // SAFETY: the caller's promise; sums of a row are two registers of whole numbers.
    unsafe {
        rows(run, sums_int8, sums_int8_one, false, |panel, row, sums| {
            let at = |column| _mm512_loadu_si512(sums.as_ptr().add(column).cast());
            finish_int8(panel, row, &[at(0), at(16)]);
        });
    }
}

/// All rows of every panel, 32 at a time, then 16, each handed to `finish` with its sums; or, where sums are what is wanted, written
/// where they belong as long as whole blocks are.
///
/// # Safety
///
/// As of a run.
#[inline(always)]
unsafe fn rows<N: Narrow>(
    run: &Run<N>,
    two: unsafe fn(&Block),
    one: unsafe fn(&Block),
    are_sums_wanted: bool,
    mut finish: impl FnMut(&Run<N>, usize, &[u32; WIDTH]),
) {
    let mut sums = Sums([[0; WIDTH]; 2 * TILE_ROWS]);
    let layout = Layout::new(run.rows.clamp(1, TILE_ROWS));
    // SAFETY: the layout is one that there is; afterwards the registers are as they were, so that switching threads saves none.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &layout, options(nostack, readonly)) };
    for panel in run.panels() {
        let mut row = 0;
        while row < run.rows {
            let left = run.rows - row;
            let (add, count) = if left > TILE_ROWS { (two, 2 * TILE_ROWS) } else { (one, TILE_ROWS) };
            let steps = run.depth / N::DEPTH;
            let fetched = row / (2 * TILE_ROWS) * steps * FETCHED;
            let is_direct = are_sums_wanted && panel.columns == WIDTH && count <= left && run.depth > 0;
            let block = Block {
                x: run.x.wrapping_add(row * run.depth).cast(),
                x_step: run.depth * size_of::<N>(),
                panel: panel.panel.cast(),
                steps,
                out: match is_direct {
                    true => panel.out.wrapping_add(row * run.out_step).cast(),
                    false => (&raw mut sums).cast(),
                },
                out_step: if is_direct { run.out_step } else { WIDTH } * size_of::<f32>(),
                // Behind the last panel is nothing that would be missed, and fetching touches nothing.
                next: match fetched < steps * STEP {
                    true => panel.panel.wrapping_add(run.panel_step).cast::<u8>().wrapping_add(fetched),
                    false => panel.panel.cast(),
                },
            };
            if block.steps > 0 {
                // SAFETY: `count` rows, of which those behind the last are valid to read too: 32 are taken only where more than 16
                // are left, and there are rows up to a multiple of 16. Written are the sums, or whole rows of the run.
                unsafe { add(&block) };
            }
            if !is_direct {
                for index in 0..count.min(left) {
                    finish(&panel, row + index, &sums.0[index]);
                }
            }
            row += count;
        }
    }
    // SAFETY: gives the registers back.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}
