//! Times to look at: `cargo test --release -p memory-core lexical::tests::speed -- --ignored --nocapture --test-threads=1`

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::lexical::{Analyzer, LexicalIndex};

/// Words by Zipf's law, as English has them; the same at every run.
struct Words(u64);

impl Words {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn word(&mut self) -> String {
        // The reciprocal of a uniform number is Zipfian.
        let rank = 50_000 / (1 + self.next(50_000));
        let mut rank = rank * 7 + self.next(1 + rank.min(6));
        let mut word = String::from("w");
        loop {
            word.push(char::from(b'a' + u8::try_from(rank % 20).unwrap()));
            rank /= 20;
            if rank == 0 {
                return word;
            }
        }
    }

    fn sentence(&mut self, words: usize) -> String {
        (0..words).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn timed(repeats: usize, mut work: impl FnMut()) -> Duration {
    median(
        (0..repeats)
            .map(|_| {
                let start = Instant::now();
                work();
                start.elapsed()
            })
            .collect(),
    )
}

#[test]
#[ignore = "times to look at"]
fn analysis() {
    for (name, text) in [
        (
            "20 words of ASCII",
            "Caroline told me that she went hiking with her children near the old lighthouse last Sunday and loved the quiet views there.",
        ),
        (
            "the same, typographic",
            "Caroline told me that she’d gone hiking with her children near the “old” lighthouse last Sunday – and loved the quiet views there.",
        ),
        (
            "French",
            "Caroline a raconté qu'elle était allée en randonnée près du vieux phare dimanche dernier, très émue par le café où elle a dîné.",
        ),
        (
            "Russian",
            "Каролина рассказала, что в прошлое воскресенье она ходила в поход с детьми возле старого маяка и ей очень понравились эти тихие виды там.",
        ),
        ("Chinese", "卡罗琳告诉我她上周日带着孩子们去老灯塔附近远足非常喜欢那里的宁静景色"),
        (
            "ids",
            "user_id-42 AuthService.login gpt-4o-mini 2023-05-08 bob@example.com https://example.com/a/b?c=1 v1.2.3",
        ),
    ] {
        let mut analyzer = Analyzer::new();
        let mut count = 0;
        analyzer.analyze(text, &mut |_| count += 1);
        let time = timed(31, || {
            for _ in 0..1_000 {
                analyzer.analyze(black_box(text), &mut |token| {
                    black_box(token);
                });
            }
        });
        println!("analyze {name}: {:?}, {count} tokens", time / 1_000);
    }
}

#[test]
#[ignore = "times to look at"]
fn hostile_analysis() {
    for unit in [
        "a",
        "aB",
        "a1",
        "a-",
        "1,",
        "\u{301}",
        "e\u{301}",
        "\u{93c}",
        "漢",
        "か",
        "ก",
        "🎉",
        "\u{fdfa}",
        " ",
        "ß",
        "İ",
        "a\u{301}.",
    ] {
        let text = unit.repeat(10_000_000 / unit.len());
        let mut count = 0;
        let time = timed(1, || Analyzer::new().analyze(&text, &mut |_| count += 1));
        println!("analyze 10 MB of {unit:?}: {time:?}, {count} tokens");
    }
}

#[test]
#[ignore = "times to look at"]
fn search() {
    for documents in [10_000_u32, 100_000] {
        let mut words = Words(7);
        let texts: Vec<String> = (0..documents).map(|_| words.sentence(15)).collect();
        let mut index = LexicalIndex::new();
        let start = Instant::now();
        for (key, text) in texts.iter().enumerate() {
            index.insert(key, text, None);
        }
        println!(
            "{documents} documents: built in {:?}, {} bytes each ({} after compaction)",
            start.elapsed(),
            index.heap_bytes() / index.len(),
            {
                index.compact();
                index.heap_bytes() / index.len()
            }
        );
        for length in [1, 3, 8, 20] {
            let queries: Vec<String> = (0..101).map(|_| words.sentence(length)).collect();
            let mut next = queries.iter().cycle();
            let time = timed(101, || {
                black_box(index.search(next.next().unwrap(), |_| true, 10));
            });
            let matching: u32 = queries[0].split(' ').map(|word| index.document_frequency(word)).sum();
            println!("  query of {length} words: p50 {time:?} (e.g. {matching} postings)");
        }
        let long: String = (0..10_000).map(|_| words.word() + " ").collect();
        println!(
            "  query of 10,000 words: {:?}",
            timed(5, || {
                black_box(index.search(&long, |_| true, 10));
            })
        );
        let mut key = 0;
        println!(
            "  replace: p50 {:?}",
            timed(10_001, || {
                index.insert(key, "a few other words now", None);
                key += 1;
            })
        );
        println!("  compact: {:?}", timed(1, || index.compact()));
    }
}
