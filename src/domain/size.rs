//! Sizes as text.

/// A number of bytes for people, such as `1.5 MiB`.
pub fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut tenths = bytes.saturating_mul(10) / 1024;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_in_which_it_is_short() {
        let check = |bytes, expected: &str| assert_eq!(size_text(bytes), expected);
        check(0, "0.0 KiB");
        check(1536, "1.5 KiB");
        check(1024 * 1024 - 1, "1023.9 KiB");
        check(1024 * 1024, "1.0 MiB");
        check(u64::MAX, "1677721.5 TiB");
    }
}
