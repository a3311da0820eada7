//! `roformer plot`: files by their names, and what is refused without a file.

mod common;

use common::{Folder, refused, succeeds};
use std::fs;

#[test]
fn every_figure_is_written_as_its_name_says() {
    let folder = Folder::new("plots");
    for figure in ["decay", "wavelengths", "vector", "rotation", "scores", "similarity", "table", "receptive"]
    {
        for (end, begins) in [("svg", &b"<svg"[..]), ("png", b"\x89PNG"), ("gif", b"GIF89a")] {
            let path = folder.path(&format!("{figure}.{end}"));
            if end == "gif" && figure != "rotation" {
                refused(&["plot", figure, "-o", &path], &["only rotation moves", ".svg or .png"]);
                continue;
            }
            let said = succeeds(&["plot", figure, "-o", &path]);
            assert!(said.contains("kB written to") && said.contains(&path), "{said}");
            let bytes = fs::read(&path).unwrap();
            assert!(bytes.starts_with(begins), "{path}");
            // Over a file that is there, and with the same bytes.
            succeeds(&["plot", figure, "--output", &path]);
            assert_eq!(fs::read(&path).unwrap(), bytes);
            succeeds(&["plot", figure, "-o", &path, "--dark", "--width", "400"]);
            assert_ne!(fs::read(&path).unwrap(), bytes);
        }
    }
    assert_eq!(folder.names().len(), 17, "{:?}", folder.names());
}

#[test]
fn a_configuration_is_drawn() {
    let folder = Folder::new("plot-config");
    let (config, path) = ("examples/llama-3.1-8b.json", folder.path("llama.svg"));
    succeeds(&["plot", "decay", "--config", config, "-o", &path]);
    let drawn = fs::read_to_string(&path).unwrap();
    // The distance that `inspect` prints.
    assert!(drawn.contains("first negative at Δ = 85,133") && drawn.contains("llama: d = 128, base 500,000"));
    succeeds(&["plot", "wavelengths", "--config", config, "-o", &path]);
    let drawn = fs::read_to_string(&path).unwrap();
    assert!(
        drawn.contains("its own: llama3")
            && drawn.contains("trained at 8,192")
            && drawn.contains("used at 131,072")
    );
    refused(
        &["plot", "decay", "--config", config, "--layer-type", "x", "-o", &path],
        &[config, "share one rope"],
    );
    refused(
        &["plot", "decay", "--config", config, "--dim", "64", "-o", &path],
        &["--dim", "cannot be used with"],
    );
    refused(&["plot", "decay", "--config", "nowhere.json", "-o", &path], &["nowhere.json"]);
    refused(&["plot", "decay", "--layer-type", "x", "-o", &path], &["--config"]);
}

/// A configuration that does not say how long its texts were in training: that is said, with the flag that says it.
#[test]
fn a_length_that_is_not_known_can_be_given() {
    let folder = Folder::new("plot-length");
    let (config, path) = (folder.path("config.json"), folder.path("a.svg"));
    fs::write(&config, r#"{"head_dim": 64, "rope_theta": 10000.0}"#).unwrap();
    refused(
        &["plot", "wavelengths", "--config", &config, "-o", &path],
        &["config.json", "length of training", "--trained"],
    );
    succeeds(&["plot", "wavelengths", "--config", &config, "--trained", "2048", "-o", &path]);
    let drawn = fs::read_to_string(&path).unwrap();
    assert!(drawn.contains("trained at 2,048") && drawn.contains("used at 16,384"));
    // It also stands where the configuration says another one.
    let llama = "examples/llama-3.1-8b.json";
    succeeds(&["plot", "wavelengths", "--config", llama, "--trained", "2048", "-o", &path]);
    let drawn = fs::read_to_string(&path).unwrap();
    assert!(drawn.contains("trained at 2,048") && drawn.contains("used at 131,072"));
}

#[test]
fn a_vector_and_its_angle_are_given() {
    let folder = Folder::new("plot-vector");
    let path = folder.path("a.svg");
    let drawn = |arguments: &[&str]| {
        succeeds(&[&["plot", "vector", "-o", &path], arguments].concat());
        fs::read_to_string(&path).unwrap()
    };
    assert!(drawn(&[]).contains("(1, 0) turned by 90° is (0, 1)"));
    assert!(drawn(&["--vector", "-2,1", "--angle", "-90"]).contains("(−2, 1) turned by −90° is (1, 2)"));
    let turned = drawn(&["--vector", "1,0.5", "--theta", "0.1", "--position", "12"]);
    assert!(turned.contains("(1, 0.5) turned by 68.8° is (−0.104, 1.113)"));
    assert!(turned.contains("m · θ = 12 · 0.1 = 1.2 rad; its length stays 1.118"));
    fs::remove_file(&path).unwrap();
    refused(&["plot", "vector", "--vector", "1,2,3", "-o", &path], &["--vector has 3 numbers", "two"]);
    refused(&["plot", "vector", "--vector", "1,x", "-o", &path], &["--vector"]);
    refused(&["plot", "vector", "--theta", "0.1", "-o", &path], &["--position"]);
    refused(
        &["plot", "vector", "--theta", "1", "--position", "2", "--angle", "3", "-o", &path],
        &["--angle"],
    );
    assert!(folder.names().is_empty());
}

#[test]
fn a_receptive_field_is_drawn() {
    let folder = Folder::new("plot-receptive");
    let path = folder.path("a.svg");
    succeeds(&["plot", "receptive", "--alpha", "0.25", "--rho", "1", "--seed", "7", "-o", &path]);
    let drawn = fs::read_to_string(&path).unwrap();
    assert!(drawn.contains("q and k random, seed 7") && drawn.contains("α = 0.25, ρ = 1, d = 128"));
    succeeds(&["plot", "wavelengths", "--alpha", "0.25", "--rho", "1", "-o", &path]);
    assert!(fs::read_to_string(&path).unwrap().contains("its own: receptive-field"));
    refused(&["plot", "table", "--alpha", "0.25", "-o", &path], &["--rho"]);
    refused(&["plot", "receptive", "--alpha", "9", "-o", &path], &["alpha is 9", "0 to 2"]);
    let both =
        ["plot", "table", "--config", "examples/llama-3.1-8b.json", "--alpha", "1", "--rho", "1", "-o"];
    refused(&[&both[..], &[path.as_str()]].concat(), &["--alpha", "cannot be used with"]);
}

#[test]
fn what_is_refused_leaves_nothing() {
    let folder = Folder::new("plot-refused");
    let path = folder.path("a.svg");
    let (gif, picture) = (folder.path("a.gif"), folder.path("a.png"));
    refused(&["plot", "decay"], &["--output"]);
    refused(&["plot", "spiral", "-o", &path], &["spiral"]);
    refused(&["plot", "decay", "-o", &folder.path("a.jpg")], &["a.jpg", ".svg, .png or .gif"]);
    refused(
        &["plot", "decay", "-o", &folder.path("a")],
        &["has another ending; expected .svg, .png or .gif"],
    );
    refused(&["plot", "decay", "-o", &folder.path("none/a.svg")], &["none/a.svg"]);
    fs::create_dir(folder.path("folder.svg")).unwrap();
    refused(&["plot", "decay", "-o", &folder.path("folder.svg")], &["folder.svg"]);
    for (flag, value) in
        [("--base", "NaN"), ("--base", "inf"), ("--base", "-3"), ("--dim", "0"), ("--dim", "99999999")]
    {
        refused(&["plot", "decay", &format!("{flag}={value}"), "-o", &path], &[&flag[2..]]);
    }
    refused(&["plot", "decay", "--reach", "99999999999", "-o", &path], &["reach is 99999999999", "1048576"]);
    refused(&["plot", "rotation", "--pairs", "0,64", "-o", &path], &["pair 64", "0 to 63"]);
    refused(&["plot", "rotation", "--pairs", "0,x", "-o", &path], &["--pairs"]);
    refused(&["plot", "rotation", "--frames", "100000", "-o", &gif], &["frames is 100000"]);
    refused(&["plot", "rotation", "--width", "5000", "-o", &gif], &["width is 5000"]);
    refused(&["plot", "table", "--width", "100000", "-o", &picture], &["width is 100000"]);
    refused(&["plot", "table", "--length", "100000", "-o", &picture], &["length is 100000"]);
    assert_eq!(folder.names(), ["folder.svg"]);
}
