//! Every path gives the same results as the portable one.

use super::super::centre::{Centre, SignCode};
use super::super::encode::{Query, quantise, rotate_unit, width_of};
use super::super::kernel::{CENTRE_UNIT, Codes, GROUP, LANES, Line, SignRows};
use super::{Kernel, Random};

fn numbers(codes: &[Codes]) -> Vec<u8> {
    codes.iter().flat_map(|line| line.0).collect()
}

#[test]
fn every_path_encodes_and_multiplies_alike() {
    let kernels = Kernel::all();
    let (portable, others) = kernels.split_first().unwrap();
    let mut random = Random(1);
    for dimensions in 1..=400 {
        let width = width_of(dimensions);
        let count = 1 + dimensions % 13;
        let (mut codes, mut rotated) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let vector = random.vector(dimensions);
            assert!(rotate_unit(*portable, &vector, &mut rotated));
            let mut row = vec![Line([0; LANES]); width / LANES];
            let scale = quantise(*portable, &rotated, &mut row);
            for kernel in others {
                let (mut same, mut same_row) = (Vec::new(), row.clone());
                assert!(rotate_unit(*kernel, &vector, &mut same));
                assert_eq!(same, rotated, "{kernel:?} {dimensions}");
                assert_eq!(quantise(*kernel, &same, &mut same_row), scale, "{kernel:?} {dimensions}");
                assert_eq!(numbers(&same_row), numbers(&row), "{kernel:?} {dimensions}");
            }
            codes.extend(row);
        }
        let query = Query::new(&rotated);
        let rows: Vec<u32> =
            (0..u32::try_from(count).unwrap() + 1).rev().step_by(1 + dimensions % 2).collect();
        let exact: Vec<i64> = rows
            .iter()
            .map(|row| {
                let row =
                    numbers(codes.chunks(width / LANES).nth(usize::try_from(*row).unwrap()).unwrap_or(&[]));
                row.iter()
                    .zip(&query.codes.wide)
                    .map(|(code, q)| (i64::from(*code) - 128) * i64::from(*q))
                    .sum()
            })
            .collect();
        for kernel in &kernels {
            let mut dots = vec![7; rows.len()];
            kernel.dots(&codes, &query.codes, &rows, &mut dots);
            assert_eq!(dots, exact, "{kernel:?} {dimensions}");
        }
    }
}

#[test]
fn extreme_codes_do_not_overflow() {
    for width in [64, 2_048, 2_112, 16_384] {
        for (code, number) in [(255_u8, 1.0_f32), (255, -1.0), (1, 1.0), (1, -1.0)] {
            let query = Query::new(&vec![number; width]);
            for kernel in Kernel::all() {
                let mut dots = [0];
                kernel.dots(&vec![Line([code; LANES]); width / LANES], &query.codes, &[0], &mut dots);
                let wide = i64::from(query.codes.wide[0]);
                assert_eq!(
                    dots[0],
                    (i64::from(code) - 128) * wide * i64::try_from(width).unwrap(),
                    "{kernel:?}"
                );
            }
        }
    }
}

#[test]
fn every_path_marks_the_same_rows() {
    let kernels = Kernel::all();
    let mut random = Random(2);
    for rows in 1..=400_usize {
        let width = 64 * (1 + rows % 9);
        let padded = rows.next_multiple_of(GROUP);
        let centre = Centre::new(random.vector(width).iter().map(|x| x * 0.02).collect(), rows);
        let (mut bits, mut centres, mut gains) =
            (vec![Line([0; GROUP]); padded / GROUP * centre.words()], vec![0; padded], vec![0; padded]);
        for row in 0..rows {
            let mut rotated = Vec::new();
            rotate_unit(kernels[0], &random.vector(width), &mut rotated);
            let (mut sign, mut same) = (SignCode::new(width), SignCode::new(width));
            centre.code(kernels[0], &rotated, &mut sign);
            for kernel in &kernels {
                centre.code(*kernel, &rotated, &mut same);
                assert_eq!((&same.words, same.centre, same.gain), (&sign.words, sign.centre, sign.gain));
            }
            for (word, kept) in sign.words.iter().enumerate() {
                bits[row / GROUP * centre.words() + word].0[row % GROUP] = *kept;
            }
            (centres[row], gains[row]) = (sign.centre, sign.gain);
        }
        let mut rotated = Vec::new();
        rotate_unit(kernels[0], &random.vector(width), &mut rotated);
        let (query, lacking) = centre.query(&rotated);
        let words = rows.div_ceil(64);
        let most: Vec<f32> = (0..rows)
            .map(|row| {
                let sum: i32 = (0..width)
                    .filter(|at| {
                        let line = &bits[row / GROUP * centre.words() + at / 64];
                        line.0[row % GROUP] >> (at % 64) & 1 == 1
                    })
                    .map(|at| {
                        let plane =
                            |p: usize| i32::try_from(query.words[at / 64][p] >> (at % 64) & 1).unwrap();
                        plane(0) + 2 * plane(1) + 4 * plane(2) - 8 * plane(3)
                    })
                    .sum();
                let gain = f32::from_bits(u32::from(gains[row]) << 16);
                #[allow(clippy::cast_precision_loss)]
                let signs = query.slope * sum as f32 + query.offset;
                f32::from(centres[row]) * CENTRE_UNIT + gain * signs
            })
            .collect();
        for floor in [f32::NEG_INFINITY, 0.0, 0.05, 0.1, 0.2, f32::INFINITY] {
            let mut marks = vec![u64::MAX; words + 1];
            let signs = SignRows { bits: &bits, centres: &centres, gains: &gains };
            kernels[0].above(signs, &query, floor - lacking, &mut marks);
            let naive: Vec<bool> = most.iter().map(|most| *most >= floor - lacking).collect();
            let marked: Vec<bool> = (0..rows).map(|row| marks[row / 64] >> (row % 64) & 1 == 1).collect();
            assert_eq!(marked, naive);
            assert_eq!(marks[words], 0, "no row, no mark");
            for kernel in &kernels {
                let mut same = vec![u64::MAX; words + 1];
                kernel.above(signs, &query, floor - lacking, &mut same);
                assert_eq!(same, marks, "{kernel:?} {rows} rows {floor}");
            }
        }
    }
}

#[test]
fn the_rotation_keeps_lengths_and_spreads_single_coordinates() {
    for dimensions in [64, 100, 384, 768, 1_000, 1_536, 3_072] {
        for at in [0, dimensions / 2, dimensions - 1] {
            let mut vector = vec![0.0; dimensions];
            vector[at] = 5.0;
            let mut rotated = Vec::new();
            rotate_unit(Kernel::detect(), &vector, &mut rotated);
            let squares: f32 = rotated.iter().map(|x| x * x).sum();
            assert!((squares - 1.0).abs() < 1e-5, "{squares}");
            let most = rotated.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
            #[allow(clippy::cast_precision_loss)]
            let even = 1.0 / (rotated.len() as f32).sqrt();
            assert!(most < 6.0 * even, "dimension {at} of {dimensions}: {most} where {even} is even");
        }
    }
}
