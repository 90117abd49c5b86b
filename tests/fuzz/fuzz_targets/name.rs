//! Any text is the name of a table or an error, and a name prints as itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strata_games::TableName;

fuzz_target!(|text: &str| {
    if let Ok(name) = text.parse::<TableName>() {
        assert_eq!(name.to_string().parse::<TableName>().as_ref(), Ok(&name));
    }
});
