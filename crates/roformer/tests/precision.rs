//! What fewer bits cost trained models: the toys of `examples/models`.

use roformer::Pipeline;
use roformer::ops::{Cpu, Precision};
use roformer::pipeline::{Embed, Pooling, cosine};
use std::path::{Path, PathBuf};

fn toy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/models").join(name)
}

fn open(name: &str, precision: Precision) -> Pipeline {
    Pipeline::open_on(Cpu { precision }, toy(name)).unwrap()
}

/// Sentences like those that the toys know.
fn sentences() -> Vec<String> {
    let (who, what) = (["小明", "小红", "老师", "我"], ["苹果", "香蕉", "电影", "这本书", "天气"]);
    let how = ["很好看", "太贵了", "不错", "让人失望", "非常精彩", "不怎么样", "很便宜"];
    let mut all = Vec::new();
    for who in who {
        for what in what {
            all.extend(how.map(|how| format!("{who}觉得{what}{how}。")));
        }
    }
    all
}

#[test]
fn vectors_point_the_same_way() {
    for name in ["tiny-mlm", "tiny-sim", "tiny-v2", "tiny-classifier", "tiny-ner"] {
        let options = Embed { pooling: Some(Pooling::Mean), ..Embed::default() };
        let vectors = |precision: Precision| -> Vec<Vec<f32>> {
            let all = open(name, precision).embed_all(&sentences(), options);
            all.into_iter().map(Result::unwrap).collect()
        };
        let known = vectors(Precision::F32);
        for (precision, least) in [(Precision::Bf16, 0.9999), (Precision::Int8, 0.999)] {
            let got = vectors(precision);
            let cosines = known.iter().zip(&got).map(|(known, got)| f64::from(cosine(known, got)));
            let worst = cosines.fold(f64::INFINITY, f64::min);
            println!("{name} in {}: {worst:.6}", precision.name());
            assert!(worst >= least, "{name} in {}: {worst}", precision.name());
        }
    }
}

#[test]
fn a_classifier_says_the_same() {
    let labels = |precision: Precision| -> Vec<String> {
        let all = open("tiny-classifier", precision).classify_all(&sentences());
        all.into_iter().map(|labels| labels.unwrap()[0].label.clone()).collect()
    };
    let known = labels(Precision::F32);
    assert!(known.iter().any(|label| *label != known[0]), "sentences of both kinds");
    for precision in [Precision::Bf16, Precision::Int8] {
        let differ = labels(precision).iter().zip(&known).filter(|(got, known)| got != known).count();
        println!("{}: {differ} of {} differ", precision.name(), known.len());
        // Half a point of accuracy, if every one that differs were wrong.
        assert!(differ as f64 <= 0.005 * known.len() as f64, "{}: {differ}", precision.name());
    }
}
