use super::*;
use crate::memory::run_all;
#[test]
fn time() {
    for name in std::env::var("T").unwrap_or("bearoff-6x15".into()).split(' ') {
        let TableName::Bearoff(spec) = name.parse().unwrap() else { panic!() };
        let t = std::time::Instant::now();
        let space = Bearoff::new(&spec);
        println!(
            "{name} plan {:?} stages {} parts {}",
            t.elapsed(),
            space.stages().len(),
            space.stages().iter().map(|s| s.parts).sum::<u32>()
        );
        let mem = (0..).zip(space.stages()).map(|(stage, s)| space.task(TaskId { stage, part: s.parts - 1 }).memory_bytes).max();
        println!("memory {mem:?}");
        if spec.points > 12 {
            continue;
        }
        let t = std::time::Instant::now();
        let table = run_all(&space).unwrap();
        println!("{:?} {:?}", t.elapsed(), table.facts());
        let mut len = 0;
        let mut keys = 0;
        for l in space.layers() {
            for s in table.shards(l.layer) {
                keys += s.keys.len();
                len += s.columns.dists.iter().map(|d| d.values.len()).sum::<usize>();
            }
        }
        println!("keys {keys} entries per key {}", len as f64 / keys as f64);
    }
}
