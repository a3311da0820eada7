//! A matrix written to a file row by row, how many rows not known before the last: `.npy` or `.safetensors`.

use crate::error::{Failure, Outcome, unwritten};
use roformer::files::no_room;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The name of the matrix in a safetensors file.
const TENSOR: &str = "embeddings";

/// Which kind of file.
#[derive(Clone, Copy)]
enum Format {
    Npy,
    Safetensors,
}

impl Format {
    /// By the end of the name.
    fn of(path: &Path) -> Result<Self, Failure> {
        match path.extension().map(|end| end.to_string_lossy().to_ascii_lowercase()).as_deref() {
            Some("npy") => Ok(Format::Npy),
            Some("safetensors") => Ok(Format::Safetensors),
            _ => Err(Failure::Input(format!(
                "{} is neither .npy nor .safetensors; expected a name that ends in one of them",
                path.display()
            ))),
        }
    }

    /// All that comes before the numbers. Of the same length whatever the shape, so that it can be written before the
    /// shape is known and again when it is.
    fn header(self, rows: u64, width: usize) -> Option<Vec<u8>> {
        let bytes = rows.checked_mul(width as u64)?.checked_mul(size_of::<f32>() as u64)?;
        let mut header;
        match self {
            Format::Npy => {
                // NumPy's format 1.0: the numbers begin at a multiple of 64, the text before them ends with a newline.
                const LENGTH: usize = 128;
                header = b"\x93NUMPY\x01\x00".to_vec();
                header.extend((LENGTH as u16 - 10).to_le_bytes());
                header.extend(
                    format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}")
                        .bytes(),
                );
                header.resize(LENGTH - 1, b' ');
                header.push(b'\n');
            }
            Format::Safetensors => {
                const LENGTH: usize = 192;
                header = (LENGTH as u64 - 8).to_le_bytes().to_vec();
                header.extend(
                    format!(
                        "{{\"{TENSOR}\":{{\"dtype\":\"F32\",\"shape\":[{rows},{width}],\"data_offsets\":[0,{bytes}]}}}}"
                    )
                    .bytes(),
                );
                header.resize(LENGTH, b' ');
            }
        }
        Some(header)
    }
}

/// A file of rows in the making. It takes its name when it is finished; if it never is, nothing is left of it, and a
/// file that had the name before still has it.
pub struct Rows {
    path: PathBuf,
    partial: PathBuf,
    format: Format,
    width: usize,
    rows: u64,
    /// Until it is finished or given up.
    file: Option<BufWriter<File>>,
}

impl Rows {
    /// Begins a file of rows of `width` numbers, in the format that the name tells.
    pub fn create(path: &Path, width: usize) -> Result<Self, Failure> {
        let format = Format::of(path)?;
        let failed = |error: io::Error| match unwritten(path, &error) {
            // A place that cannot be written to was given; a disk that is full was not.
            Failure::Other(message) if no_room(error.kind()).is_none() => Failure::Input(message),
            other => other,
        };
        if path.is_dir() {
            return Err(Failure::Input(format!("{} is a folder; expected a file to write", path.display())));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = BufWriter::with_capacity(1 << 18, File::create(&partial).map_err(failed)?);
        let mut rows = Rows { path: path.into(), partial, format, width, rows: 0, file: Some(file) };
        rows.write_header()?;
        Ok(rows)
    }

    /// Adds a row.
    pub fn push(&mut self, row: &[f32]) -> Outcome {
        if row.len() != self.width {
            let (found, expected) = (row.len(), self.width);
            return Err(Failure::Other(format!(
                "a row of {found} numbers for a matrix of width {expected}; this is a bug: report it"
            )));
        }
        self.add(row.iter().copied())
    }

    /// Adds a row of NaN, in the place of a text that could not be used: row by row, the file stays the input's.
    pub fn push_nan(&mut self) -> Outcome {
        self.add(std::iter::repeat_n(f32::NAN, self.width))
    }

    /// Writes the number of rows, makes sure of the file, and gives it its name. Returns the shape.
    pub fn finish(mut self) -> Result<(u64, usize), Failure> {
        self.write_header()?;
        let outcome = match self.file.take() {
            Some(file) => file
                .into_inner()
                .map_err(io::IntoInnerError::into_error)
                .and_then(|file| file.sync_all())
                .and_then(|()| fs::rename(&self.partial, &self.path)),
            None => Ok(()),
        };
        if outcome.is_err() {
            self.remove();
        }
        outcome.map_err(|error| self.failed(&error))?;
        Ok((self.rows, self.width))
    }

    fn add(&mut self, mut row: impl Iterator<Item = f32>) -> Outcome {
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = row.try_for_each(|number| file.write_all(&number.to_le_bytes()));
        written.map_err(|error| self.failed(&error))?;
        self.rows += 1;
        Ok(())
    }

    fn write_header(&mut self) -> Outcome {
        let Some(header) = self.format.header(self.rows, self.width) else {
            return Err(Failure::Other(format!(
                "{}: it would have more numbers than can be counted",
                self.path.display()
            )));
        };
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&header));
        written.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> Failure {
        unwritten(&self.path, error)
    }

    fn remove(&self) {
        // What is left is of no use; that it may not be there is no second failure.
        let _ = fs::remove_file(&self.partial);
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            // Closed first, and what is still buffered thrown away: some systems remove no open file.
            drop(file.into_parts());
            self.remove();
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use safetensors::tensor::{Dtype, SafeTensors};

    /// A folder that goes with the test.
    pub struct Folder(pub PathBuf);

    impl Folder {
        pub fn new(test: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("roformer-text-{}-{test}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }

        pub fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
            fs::write(self.0.join(name), bytes).unwrap();
            self.0.join(name)
        }

        fn names(&self) -> Vec<String> {
            let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
            fs::read_dir(&self.0).unwrap().map(name).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn done<T>(result: Result<T, Failure>) -> T {
        match result {
            Ok(value) => value,
            Err(Failure::Input(message) | Failure::Other(message)) => panic!("{message}"),
            Err(Failure::Closed) => panic!("closed"),
        }
    }

    fn written(path: &Path, width: usize, rows: &[Option<&[f32]>]) -> Vec<u8> {
        let mut file = done(Rows::create(path, width));
        for row in rows {
            done(match row {
                Some(row) => file.push(row),
                None => file.push_nan(),
            });
        }
        assert!(!path.exists(), "not before it is whole");
        assert_eq!(done(file.finish()), (rows.len() as u64, width));
        fs::read(path).unwrap()
    }

    const ROWS: [Option<&[f32]>; 3] = [Some(&[1.0, -0.5]), None, Some(&[f32::MIN_POSITIVE, 3e38])];

    fn numbers(bytes: &[u8]) -> Vec<f32> {
        bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    fn check(found: &[f32]) {
        assert_eq!(found.len(), 6);
        assert!(found[2].is_nan() && found[3].is_nan());
        assert_eq!([found[0], found[1], found[4], found[5]], [1.0, -0.5, f32::MIN_POSITIVE, 3e38]);
    }

    #[test]
    fn npy() {
        let folder = Folder::new("npy");
        let bytes = written(&folder.0.join("a.npy"), 2, &ROWS);
        assert_eq!(bytes[..8], *b"\x93NUMPY\x01\x00");
        let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        assert!((length + 10).is_multiple_of(64));
        let (header, data) = bytes[10..].split_at(length);
        let header = std::str::from_utf8(header).unwrap();
        assert!(header.ends_with(" \n"));
        assert_eq!(header.trim_end(), "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }");
        check(&numbers(data));
        assert_eq!(folder.names(), ["a.npy"]);
    }

    #[test]
    fn safetensors() {
        let folder = Folder::new("safetensors");
        let bytes = written(&folder.0.join("A.SafeTensors"), 2, &ROWS);
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(tensors.names(), ["embeddings"]);
        let tensor = tensors.tensor("embeddings").unwrap();
        assert_eq!((tensor.dtype(), tensor.shape()), (Dtype::F32, &[3, 2][..]));
        check(&numbers(tensor.data()));
    }

    #[test]
    fn no_rows_at_all() {
        let folder = Folder::new("no-rows");
        let bytes = written(&folder.0.join("a.npy"), 768, &[]);
        assert!(bytes.len() == 128 && String::from_utf8_lossy(&bytes).contains("(0, 768)"));
        let bytes = written(&folder.0.join("a.safetensors"), 768, &[]);
        assert_eq!(SafeTensors::deserialize(&bytes).unwrap().tensor("embeddings").unwrap().shape(), [0, 768]);
    }

    #[test]
    fn headers_of_all_shapes_have_one_length() {
        for format in [Format::Npy, Format::Safetensors] {
            let length = format.header(0, 0).unwrap().len();
            let shapes = [(1, 1), (u64::MAX / 4, 1), (1, usize::MAX / 4), (u64::MAX, 0), (0, usize::MAX)];
            for (rows, width) in shapes {
                let header = format.header(rows, width).unwrap();
                assert_eq!(header.len(), length);
                let end: &[u8] = if matches!(format, Format::Npy) { b", }" } else { b"}}" };
                assert!(header.trim_ascii_end().ends_with(end), "{}", String::from_utf8_lossy(&header));
            }
            assert!(format.header(u64::MAX, 2).is_none());
        }
    }

    #[test]
    fn what_is_not_finished_leaves_the_old_file() {
        let folder = Folder::new("unfinished");
        let path = folder.put("a.npy", b"old");
        let mut file = done(Rows::create(&path, 2));
        done(file.push(&[1.0, 2.0]));
        assert!(matches!(file.push(&[1.0]), Err(Failure::Other(_))));
        drop(file);
        assert_eq!(folder.names(), ["a.npy"]);
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_failed_write_leaves_no_file() {
        let folder = Folder::new("failed");
        let path = folder.0.join("a.safetensors");
        let mut file = done(Rows::create(&path, 2));
        // Open for reading only: every write fails.
        file.file = Some(BufWriter::with_capacity(0, File::open(&file.partial).unwrap()));
        assert!(matches!(file.push(&[1.0, 2.0]), Err(Failure::Other(_))));
        assert!(matches!(file.finish(), Err(Failure::Other(_))));
        assert_eq!(folder.names(), [""; 0]);

        // The name is taken by a folder while the rows are written.
        let file = done(Rows::create(&path, 2));
        fs::create_dir(&path).unwrap();
        assert!(matches!(file.finish(), Err(Failure::Other(_))));
        assert_eq!(folder.names(), ["a.safetensors"]);
    }

    #[test]
    fn names_that_cannot_be_written_are_refused() {
        let folder = Folder::new("names");
        fs::create_dir(folder.0.join("d.npy")).unwrap();
        for (name, says) in [
            ("a.txt", ".npy nor .safetensors"),
            ("npy", "neither"),
            ("none/a.npy", "none/a.npy: "),
            ("d.npy", "folder"),
        ] {
            match Rows::create(&folder.0.join(name), 2) {
                Err(Failure::Input(message)) => assert!(message.contains(says), "{message}"),
                _ => panic!("{name} is taken"),
            }
        }
        assert_eq!(folder.names(), ["d.npy"]);
    }
}
