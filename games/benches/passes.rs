//! CPU time of both passes of a 2048 table, with nothing written: `cargo bench -p strata-games --bench passes -- NAME [THREADS]`.
//!
//! What a build adds to this is encoding, hashing and writing. `STRATA_LANES=1` or `4` takes narrower vectors.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;
use strata_games::*;

/// Keeps what later tasks read, in memory.
#[derive(Default)]
struct Kept {
    indexes: Mutex<HashMap<ArtifactId, Bitmap>>,
    work: Mutex<HashMap<(Layer, u32), Columns>>,
    numbers: Mutex<HashMap<(Layer, u32), memory::HeapNumbers<f32>>>,
    doubles: Mutex<HashMap<(Layer, u32), memory::HeapNumbers<f64>>>,
    counts: Mutex<Counts>,
    facts: Mutex<Vec<(String, f64)>>,
}

impl TaskIo for Kept {
    fn memory_bytes(&self) -> u64 {
        std::env::var("MEMORY").map_or(u64::MAX, |bytes| bytes.parse().expect("MEMORY in bytes"))
    }
    fn scratch(&self, bytes: u64) -> Result<Box<dyn Scratch>, TaskError> {
        Ok(Box::new(memory::HeapScratch::zeroed(bytes)))
    }
    fn load_index(&self, kind: ArtifactKind, layer: Layer, shard: u32) -> Result<Bitmap, TaskError> {
        Ok(self.indexes.lock().unwrap()[&ArtifactId { kind, layer, shard }].clone())
    }
    fn join_index(&self, kind: ArtifactKind, layer: Layer, shard: u32, runs: &mut [Run<'_>]) -> Result<(), TaskError> {
        let kept = self.indexes.lock().unwrap();
        for Run { from, words } in runs {
            let bits = &kept[&ArtifactId { kind, layer, shard }].words()[(*from / 64) as usize..];
            words.iter_mut().zip(bits).for_each(|(word, bits)| *word |= bits);
        }
        Ok(())
    }
    fn read_work(&self, layer: Layer, shard: u32, f: &mut dyn FnMut(&[f64])) -> Result<(), TaskError> {
        f(&self.work.lock().unwrap()[&(layer, shard)].scalars[0]);
        Ok(())
    }
    fn map_numbers(&self, layer: Layer, shard: u32) -> Result<Box<dyn Numbers<f32>>, TaskError> {
        Ok(Box::new(self.numbers.lock().unwrap()[&(layer, shard)].clone()))
    }
    fn map_doubles(&self, layer: Layer, shard: u32) -> Result<Box<dyn Numbers<f64>>, TaskError> {
        Ok(Box::new(self.doubles.lock().unwrap()[&(layer, shard)].clone()))
    }
    fn put_doubles(&self, layer: Layer, shard: u32, numbers: &[f64]) -> Result<(), TaskError> {
        let mut kept = self.doubles.lock().unwrap();
        kept.retain(|(kept, _), _| kept.0 + 24 >= layer.0);
        kept.insert((layer, shard), numbers.into());
        Ok(())
    }
    fn put_numbers(&self, layer: Layer, shard: u32, numbers: &[f32]) -> Result<(), TaskError> {
        let mut kept = self.numbers.lock().unwrap();
        // A layer is read by the 24 after it.
        kept.retain(|(kept, _), _| kept.0 + 24 >= layer.0);
        kept.insert((layer, shard), numbers.into());
        Ok(())
    }
    fn put_index(&self, kind: ArtifactKind, layer: Layer, shard: u32, keys: Keys<'_>) -> Result<(), TaskError> {
        if let Keys::Bits(bits) = keys {
            self.indexes.lock().unwrap().insert(ArtifactId { kind, layer, shard }, bits.clone());
        }
        Ok(())
    }
    fn put_work(&self, layer: Layer, shard: u32, keys: Option<Keys<'_>>, columns: ColumnsView<'_>) -> Result<(), TaskError> {
        keys.map_or(Ok(()), |keys| self.put_index(ArtifactKind::Work, layer, shard, keys))?;
        self.work.lock().unwrap().insert((layer, shard), columns.to_columns());
        Ok(())
    }
    fn put_shard(&self, _: Layer, _: u32, _: Keys<'_>, _: ColumnsView<'_>) -> Result<(), TaskError> {
        Ok(())
    }
    fn put_counts(&self, _: Layer, _: u32, counts: Counts) -> Result<(), TaskError> {
        let mut sum = self.counts.lock().unwrap();
        sum.states += counts.states;
        sum.afterstates += counts.afterstates;
        sum.terminal += counts.terminal;
        Ok(())
    }
    fn put_stats(&self, _: Layer, _: u32, _: LayerStats) -> Result<(), TaskError> {
        Ok(())
    }
    fn put_fact(&self, name: &str, value: f64) {
        self.facts.lock().unwrap().push((name.into(), value));
    }
    fn progress(&self, _: Layer, _: u64) -> Result<(), TaskError> {
        Ok(())
    }
}

/// CPU seconds of this process so far.
fn cpu() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let name: TableName = args.first().map_or("2048-4x3+horizon=96", String::as_str).parse().expect("the name of a 2048 table");
    let threads = args.get(1).map_or(1, |n| n.parse().expect("a number of threads"));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let space = open(&name).expect("a table that can be planned");
    let kept = Kept::default();
    for pass in [Pass::Forward, Pass::Backward] {
        let (wall, before) = (Instant::now(), cpu());
        for (stage, info) in (0..).zip(space.stages()).filter(|(_, info)| info.pass == pass) {
            for part in 0..info.parts {
                pool.install(|| space.run(TaskId { stage, part }, &kept)).expect("the kernel runs");
            }
        }
        let (seconds, counts) = (cpu() - before, *kept.counts.lock().unwrap());
        println!(
            "{name} {pass}, {threads} threads: {} states, {:.2} CPU s, {:.2} s, {:.2} million states a CPU second",
            counts.states,
            seconds,
            wall.elapsed().as_secs_f64(),
            counts.states as f64 / seconds / 1e6
        );
    }
    println!("{:?}", kept.facts.lock().unwrap());
}
