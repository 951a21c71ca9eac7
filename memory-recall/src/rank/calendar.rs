//! Days of the Gregorian calendar, counted from 1970-01-01, in UTC.

use memory_core::Timestamp;

const MILLIS_A_DAY: i64 = 86_400_000;

/// A day, counted from 1970-01-01.
pub(super) type Day = i64;

/// The day of an instant.
pub(super) fn day_of(at: Timestamp) -> Day {
    at.as_millis().div_euclid(MILLIS_A_DAY)
}

/// The day with this date; a day beyond the month's end is one of the next month.
///
/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms" (2013), `days_from_civil`.
pub(super) fn day(year: i64, month: i64, day_of_month: i64) -> Day {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day_of_month - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of the month; `civil_from_days` of the same page.
pub(super) fn date(day: Day) -> (i64, i64, i64) {
    let days = day + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days - era * 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// 0 for Monday to 6 for Sunday.
pub(super) fn weekday(day: Day) -> i64 {
    (day + 3).rem_euclid(7)
}

/// The last day of a month.
pub(super) fn end_of_month(year: i64, month: i64) -> Day {
    if month == 12 { day(year, 12, 31) } else { day(year, month + 1, 1) - 1 }
}

/// The first day of the month that is `months` before that of `from`.
pub(super) fn months_before(from: Day, months: i64) -> Day {
    let (year, month, _) = date(from);
    let count = year * 12 + month - 1 - months;
    day(count.div_euclid(12), count.rem_euclid(12) + 1, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_are_each_others_inverse() {
        assert_eq!(day(1970, 1, 1), 0);
        assert_eq!(day(2000, 2, 29), 11_016);
        assert_eq!(day(2023, 5, 8), day_of("2023-05-08T23:59:59Z".parse().unwrap()));
        let mut next = day(1895, 12, 31);
        for day_number in day(1896, 1, 1)..day(2110, 1, 1) {
            let (year, month, of_month) = date(day_number);
            assert_eq!(day(year, month, of_month), day_number);
            assert_eq!(next + 1, day_number);
            assert!(day_number <= end_of_month(year, month));
            next = day_number;
        }
    }

    #[test]
    fn weekdays_and_months() {
        assert_eq!(weekday(day(2023, 5, 8)), 0);
        assert_eq!(weekday(day(1969, 12, 28)), 6);
        assert_eq!(months_before(day(2023, 1, 31), 1), day(2022, 12, 1));
        assert_eq!(months_before(day(2023, 3, 2), 14), day(2022, 1, 1));
        assert_eq!(end_of_month(2024, 2), day(2024, 2, 29));
    }
}
