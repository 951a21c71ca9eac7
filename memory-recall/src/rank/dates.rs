//! Dates and periods that a question names.

use super::calendar::{Day, date, day, end_of_month, months_before, weekday};

/// Days from a first to a last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) first: Day,
    pub(super) last: Day,
}

/// For how long after and before an event people talk about it: a share of the window's length, but at least this many
/// days.
const AFTER: (f64, f64) = (0.5, 4.0);
const BEFORE: (f64, f64) = (0.25, 2.0);

impl Window {
    fn new(first: Day, last: Day) -> Self {
        Self { first, last }
    }

    /// 1 within the window, decreasing with a day's distance from it.
    pub(super) fn nearness(&self, day: Day) -> f64 {
        let (distance, (share, least)) = if day > self.last {
            (day - self.last, AFTER)
        } else if day < self.first {
            (self.first - day, BEFORE)
        } else {
            return 1.0;
        };
        #[allow(clippy::cast_precision_loss, reason = "days are far below 2^53")]
        let (distance, length) = (distance as f64, (self.last - self.first + 1) as f64);
        let slack = (length * share).max(least);
        slack * slack / (slack * slack + distance * distance)
    }
}

/// The windows that `text` names. Relative ones count from `today`, the day of the question. `span` is the first and
/// last day of what can be found, so a month without a year is in one of those years.
pub(super) fn windows(text: &str, today: Day, span: (Day, Day)) -> Vec<Window> {
    let text = text.to_lowercase();
    let words: Vec<&str> = text
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '-' | '.' | '\'' | '’')))
        .flat_map(parts)
        .filter(|word| !word.is_empty())
        .collect();
    let reader = Reader { words: &words, today, span, is_end: false };
    let (mut found, mut at) = (Vec::new(), 0);
    while at < words.len() && found.len() < MAX_WINDOWS {
        let (begin, before) = (at, found.len());
        at += reader.read(at, &mut found).max(1);
        // `as of May` asks for what was said at any time before.
        if begin >= 2 && words.get(begin - 2..begin) == Some(&["as", "of"]) {
            found.truncate(before);
        }
    }
    found
}

/// Days of a year, at most.
const A_YEAR: Day = 366;
/// More dates than anybody asks about at once.
const MAX_WINDOWS: usize = 16;

/// A word without the possessive, split at hyphens and full stops unless it is a date.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let word = word.trim_matches('.').trim_end_matches("'s").trim_end_matches("’s");
    let whole = word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
    let mut pieces = word.split(move |c| matches!(c, '-' | '.') && !whole);
    let first = pieces.next();
    first.into_iter().chain(pieces)
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    words: &'a [&'a str],
    today: Day,
    span: (Day, Day),
    /// Whether it reads an end of a range.
    is_end: bool,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

const BEFORE_MONTHS: [&str; 14] = [
    "in", "of", "since", "during", "by", "until", "early", "late", "mid", "before", "after", "between",
    "from", "next",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Day,
    Week,
    Month,
    Year,
}

/// Reads what starts at a word. Returns how many words it took, 0 if none.
type Read<'a> = fn(&Reader<'a>, usize, &mut Vec<Window>) -> usize;

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).copied().unwrap_or_default()
    }

    /// Reads what starts at a word. Returns how many words it took, 0 if none.
    fn read(&self, at: usize, found: &mut Vec<Window>) -> usize {
        let word = self.word(at);
        let tries: [Read<'_>; 8] = [
            Self::range,
            Self::numeric,
            Self::day_then_month,
            Self::month_name,
            Self::ago,
            Self::past,
            Self::named,
            Self::year_alone,
        ];
        if word.len() < 2 && !word.starts_with(|c: char| c.is_ascii_digit() || c == 'a') {
            return 0;
        }
        tries.iter().map(|read| read(self, at, found)).find(|taken| *taken > 0).unwrap_or(0)
    }

    /// `between 3 May and 7 June`, `from May to July 2023`: one window from the first date to the second.
    fn range(&self, at: usize, found: &mut Vec<Window>) -> usize {
        let joins: &[&str] = match self.word(at) {
            "between" => &["and"],
            "from" => &["to", "until", "till", "through"],
            _ => return 0,
        };
        if self.is_end {
            return 0;
        }
        let first = self.end(at + 1, self.span);
        let join = at + 1 + first.1;
        if first.1 == 0 || !joins.contains(&self.word(join)) {
            return 0;
        }
        // A date without a year is in the year that fits the other date.
        let (mut ends, taken) = self.end(join + 1, self.span);
        if let ([begin], true) = (first.0.as_slice(), ends.len() > 1) {
            ends = self.end(join + 1, (begin.first, begin.first + A_YEAR)).0;
            ends.retain(|end| end.first >= begin.first);
            ends.truncate(1);
        }
        let before = found.len();
        for end in ends {
            let begins = self.end(at + 1, (end.first - A_YEAR, end.last)).0;
            let begin = begins.iter().rev().find(|begin| begin.first <= end.first);
            found.extend(begin.map(|begin| Window::new(begin.first, end.last)));
        }
        if found.len() == before { 0 } else { join + 1 + taken - at }
    }

    /// The windows of a date at an end of a range, and how many words it took.
    fn end(&self, at: usize, span: (Day, Day)) -> (Vec<Window>, usize) {
        let the = usize::from(self.word(at) == "the");
        let mut found = Vec::new();
        let taken = Reader { span, is_end: true, ..*self }.read(at + the, &mut found);
        (found, if taken == 0 { 0 } else { the + taken })
    }

    /// `2023-05-08`, `5/8/2023`, `5/8`, `8.5.2023`.
    fn numeric(&self, at: usize, found: &mut Vec<Window>) -> usize {
        let word = self.word(at);
        let separator = ['/', '.'].into_iter().find(|mark| word.contains(*mark)).unwrap_or('-');
        let numbers: Option<Vec<i64>> = word.split(separator).map(|number| digits(number, 4)).collect();
        let (year, month, of_month) = match numbers.as_deref() {
            Some([year, month, of_month]) if *year > 31 => (Some(*year), *month, *of_month),
            // With a year of four digits: `3.10.12` is a version.
            Some([of_month, month, year]) if separator == '.' && *year > 999 => {
                (Some(*year), *month, *of_month)
            }
            Some([first, second, year]) if separator == '/' => {
                let year = if *year < 100 { *year + 2_000 } else { *year };
                if *first > 12 { (Some(year), *second, *first) } else { (Some(year), *first, *second) }
            }
            Some([first, second]) if separator == '/' && *first > 12 => (None, *second, *first),
            Some([first, second]) if separator == '/' => (None, *first, *second),
            _ => return 0,
        };
        if !(1..=12).contains(&month) || !(1..=31).contains(&of_month) {
            return 0;
        }
        self.push_days(year, month, of_month, found);
        1
    }

    /// `8 May 2023`, `the 8th of May`.
    fn day_then_month(&self, at: usize, found: &mut Vec<Window>) -> usize {
        let Some(of_month) = ordinal(self.word(at)) else { return 0 };
        let mut next = at + 1;
        next += usize::from(self.word(next) == "of");
        let Some(month) = month(self.word(next)) else { return 0 };
        next += 1;
        let year = year(self.word(next));
        self.push_days(year, month, of_month, found);
        next - at + usize::from(year.is_some())
    }

    /// `May 8th, 2023`, `May 2023`, `May`, `summer of 2022`.
    fn month_name(&self, at: usize, found: &mut Vec<Window>) -> usize {
        let word = self.word(at);
        let season = season(word);
        let Some(first) = month(word).or(season.map(|(first, _)| first)) else { return 0 };
        let before = if at == 0 { "" } else { self.word(at - 1) };
        let mut next = at + 1;
        if season.is_none()
            && let Some(of_month) = ordinal(self.word(next))
        {
            let year = year(self.word(next + 1));
            self.push_days(year, first, of_month, found);
            return 2 + usize::from(year.is_some());
        }
        next += usize::from(self.word(next) == "of");
        let year = year(self.word(next));
        // These words have other meanings too.
        let ambiguous = matches!(word, "may" | "march" | "mar" | "fall" | "spring");
        if ambiguous && year.is_none() && !self.is_end && !BEFORE_MONTHS.contains(&before) {
            return 0;
        }
        let (first, last) = season.unwrap_or((first, first));
        self.push_months(year, first, last, found);
        next - at + usize::from(year.is_some())
    }

    fn push_days(&self, year: Option<i64>, month: i64, of_month: i64, found: &mut Vec<Window>) {
        for year in self.years(year, month) {
            let day = day(year, month, of_month);
            found.push(Window::new(day, day));
        }
    }

    /// From one month to another; a winter ends in the next year.
    fn push_months(&self, year: Option<i64>, first: i64, last: i64, found: &mut Vec<Window>) {
        for year in self.years(year, first) {
            let end = if last < first { year + 1 } else { year };
            found.push(Window::new(day(year, first, 1), end_of_month(end, last)));
        }
    }

    /// The given year, or those of the span, at most four of them.
    fn years(&self, year: Option<i64>, month: i64) -> impl Iterator<Item = i64> {
        let (first, last) = self.span;
        let end = date(last.max(first)).0;
        let (start, end) = match year {
            Some(year) => (year, year),
            // A winter that began before what can be found may reach into it.
            None => ((date(first).0 - i64::from(month == 12)).max(end - 3), end),
        };
        start..=end
    }

    /// `two weeks ago`, `a couple of days ago`, `a few months back`.
    fn ago(&self, at: usize, found: &mut Vec<Window>) -> usize {
        let Some((count, unit, next)) = self.amount(at) else { return 0 };
        if !matches!(self.word(next), "ago" | "back") {
            return 0;
        }
        let (low, high) = count;
        let window = match unit {
            Unit::Day => Window::new(self.today - high, self.today - low),
            Unit::Week => Window::new(self.today - high * 7 - 3, self.today - low * 7 + 3),
            Unit::Month => {
                Window::new(self.today - (high * 61 + 1) / 2 - 10, self.today - (low * 61 + 1) / 2 + 10)
            }
            Unit::Year => Window::new(self.today - high * 365 - 90, self.today - low * 365 + 90),
        };
        found.push(window);
        next + 1 - at
    }

    /// `the last three months`, `past week`, `last month`, `this year`, `last Tuesday`, `last summer`, `last May`, `last night`.
    fn past(&self, at: usize, found: &mut Vec<Window>) -> usize {
        let which = self.word(at);
        if !matches!(which, "last" | "past" | "previous" | "this") {
            return 0;
        }
        let today = self.today;
        if let Some(weekday) = WEEKDAYS.iter().position(|name| *name == self.word(at + 1)) {
            self.push_weekday(weekday, found);
            return 2;
        }
        let named = month(self.word(at + 1)).map(|month| (month, month));
        // `last May 8th` and `last May 2023` contain a date.
        let dated = ordinal(self.word(at + 2)).or(year(self.word(at + 2))).is_some();
        if let Some((first, last)) = season(self.word(at + 1)).or(named.filter(|_| !dated)) {
            let (year, month, _) = date(today);
            let year = if which == "this" || month > first { year } else { year - 1 };
            self.push_months(Some(year), first, last, found);
            return 2;
        }
        match (which, self.word(at + 1)) {
            ("last", "night") => found.push(Window::new(today - 1, today)),
            ("this", "morning" | "afternoon" | "evening") => found.push(Window::new(today, today)),
            _ => return self.past_units(at, found),
        }
        2
    }

    /// `the last three months`, `past week`, `last month`, `this year`, `last weekend`.
    fn past_units(&self, at: usize, found: &mut Vec<Window>) -> usize {
        let (which, today) = (self.word(at), self.today);
        if self.word(at + 1) == "weekend" {
            self.push_weekend(found);
            return 2;
        }
        let ((_, count), unit, next) = match (which, unit(self.word(at + 1))) {
            (_, Some((unit, count))) => ((count, count), unit, at + 2),
            ("this", None) => return 0,
            _ => match self.amount(at + 1) {
                Some(amount) => amount,
                None => return 0,
            },
        };
        let (year, _, _) = date(today);
        let window = match (which, unit) {
            (_, Unit::Day) => Window::new(today - count, today),
            ("this", Unit::Week) => Window::new(today - weekday(today), today),
            ("this", Unit::Month) => Window::new(months_before(today, 0), today),
            ("this", Unit::Year) => Window::new(day(year, 1, 1), today),
            (_, Unit::Week) => Window::new(today - count * 7 - 1, today),
            // `last month` is the calendar's, `the past month` the thirty days before.
            ("last", Unit::Month) if count == 1 => {
                Window::new(months_before(today, 1), months_before(today, 0) - 1)
            }
            (_, Unit::Month) => Window::new(today - (count * 61 + 1) / 2 - 1, today),
            ("last", Unit::Year) if count == 1 => Window::new(day(year - 1, 1, 1), day(year - 1, 12, 31)),
            (_, Unit::Year) => Window::new(today - count * 365 - 1, today),
        };
        found.push(window);
        next - at
    }

    /// `yesterday`, `the day before yesterday`, `the week before last`, `on Monday`, `the weekend`, and named days.
    fn named(&self, at: usize, found: &mut Vec<Window>) -> usize {
        let (word, next, today) = (self.word(at), self.word(at + 1), self.today);
        match (word, next, self.word(at + 2)) {
            ("day", "before", "yesterday") => {
                found.push(Window::new(today - 2, today - 2));
                return 3;
            }
            ("week", "before", "last") => {
                found.push(Window::new(today - 15, today - 7));
                return 3;
            }
            ("month", "before", "last") => {
                found.push(Window::new(months_before(today, 2), months_before(today, 1) - 1));
                return 3;
            }
            ("year", "before", "last") => {
                let year = date(today).0 - 2;
                found.push(Window::new(day(year, 1, 1), day(year, 12, 31)));
                return 3;
            }
            // `the weekend before 8 May` is another.
            ("the", "weekend", after) if !matches!(after, "before" | "after" | "of") => {
                self.push_weekend(found);
                return 2;
            }
            _ => {}
        }
        match (word, next) {
            ("yesterday", _) => found.push(Window::new(today - 1, today - 1)),
            ("today" | "tonight", _) => found.push(Window::new(today, today)),
            ("on", name) => match WEEKDAYS.iter().position(|weekday| *weekday == name) {
                Some(weekday) => {
                    self.push_weekday(weekday, found);
                    return 2;
                }
                None => return 0,
            },
            ("christmas", _) => self.push_days(None, 12, 25, found),
            ("halloween", _) => self.push_days(None, 10, 31, found),
            ("thanksgiving", _) => {
                for year in self.years(None, 11) {
                    let first = day(year, 11, 1);
                    let thursday = first + (3 - weekday(first)).rem_euclid(7) + 21;
                    found.push(Window::new(thursday, thursday));
                }
            }
            ("valentine" | "valentines", _) => self.push_days(None, 2, 14, found),
            ("new", "year" | "years") => {
                self.push_days(None, 1, 1, found);
                return 2;
            }
            _ => return 0,
        }
        1
    }

    /// The latest such day before the question.
    fn push_weekday(&self, name: usize, found: &mut Vec<Window>) {
        let name = i64::try_from(name).unwrap_or_default();
        let back = (weekday(self.today) - name).rem_euclid(7);
        let latest = self.today - if back == 0 { 7 } else { back };
        found.push(Window::new(latest, latest));
    }

    /// The latest Saturday and Sunday, also while they last.
    fn push_weekend(&self, found: &mut Vec<Window>) {
        let saturday = self.today - (weekday(self.today) + 2) % 7;
        found.push(Window::new(saturday, saturday + 1));
    }

    fn year_alone(&self, at: usize, found: &mut Vec<Window>) -> usize {
        let Some(year) = year(self.word(at)) else { return 0 };
        found.push(Window::new(day(year, 1, 1), day(year, 12, 31)));
        1
    }

    /// A number of units: how many at least and at most, and the word after them.
    fn amount(&self, at: usize) -> Option<((i64, i64), Unit, usize)> {
        if (self.word(at), self.word(at + 1), self.word(at + 2)) == ("half", "a", "year") {
            return Some(((6, 6), Unit::Month, at + 3));
        }
        let ((low, high), mut next) = match (self.word(at), self.word(at + 1)) {
            ("a", "couple") => ((2, 2), at + 2),
            ("couple", _) => ((2, 2), at + 1),
            ("a", "few") => ((2, 5), at + 2),
            ("few" | "several", _) => ((2, 5), at + 1),
            ("a" | "an", _) => ((1, 1), at + 1),
            (word, _) => {
                let count = number(word)?;
                ((count, count), at + 1)
            }
        };
        next += usize::from(self.word(next) == "of");
        let (unit, each) = unit(self.word(next))?;
        Some(((low * each, high * each), unit, next + 1))
    }
}

fn month(word: &str) -> Option<i64> {
    let short =
        |name: &str| word.len() == 3 && name.starts_with(word) || word == "sept" && name == "september";
    let at = MONTHS.iter().position(|name| *name == word || short(name))?;
    i64::try_from(at + 1).ok()
}

/// First and last month.
fn season(word: &str) -> Option<(i64, i64)> {
    match word {
        "spring" => Some((3, 5)),
        "summer" => Some((6, 8)),
        "autumn" | "fall" => Some((9, 11)),
        "winter" => Some((12, 2)),
        _ => None,
    }
}

/// A unit, and how many of it the word means.
fn unit(word: &str) -> Option<(Unit, i64)> {
    match word {
        "day" | "days" => Some((Unit::Day, 1)),
        "week" | "weeks" | "wk" | "wks" => Some((Unit::Week, 1)),
        "fortnight" | "fortnights" => Some((Unit::Week, 2)),
        "month" | "months" => Some((Unit::Month, 1)),
        "year" | "years" | "yr" | "yrs" => Some((Unit::Year, 1)),
        "decade" | "decades" => Some((Unit::Year, 10)),
        _ => None,
    }
}

fn number(word: &str) -> Option<i64> {
    const NUMBERS: [&str; 12] =
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    let named = NUMBERS.iter().position(|name| *name == word).and_then(|at| i64::try_from(at + 1).ok());
    named.or_else(|| digits(word, 3))
}

fn digits(word: &str, longest: usize) -> Option<i64> {
    let fits = (1..=longest).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| word.parse().ok())?
}

fn year(word: &str) -> Option<i64> {
    digits(word, 4).filter(|year| (1_900..=2_100).contains(year))
}

/// `8`, `8th`: the day of a month.
fn ordinal(word: &str) -> Option<i64> {
    let number = ["st", "nd", "rd", "th"].iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word);
    digits(number, 2).filter(|day| (1..=31).contains(day))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Date = (i64, i64, i64);

    /// The windows of a text asked on Thursday, 26 November 2026, about turns since June 2024.
    fn asked(text: &str) -> Vec<(Date, Date)> {
        let today = day(2026, 11, 26);
        let found = windows(text, today, (day(2024, 6, 1), today));
        found.into_iter().map(|window| (date(window.first), date(window.last))).collect()
    }

    #[test]
    fn times_are_read_in_the_ways_people_write_them() {
        let day = |month, of_month| vec![((2026, month, of_month), (2026, month, of_month))];
        for (text, found) in [
            ("What was on 15.03.2026?", day(3, 15)),
            ("on 2026/03/15.", day(3, 15)),
            ("on 15 March 2026", day(3, 15)),
            ("yesterday", day(11, 25)),
            ("the day before yesterday", day(11, 24)),
            ("this morning", day(11, 26)),
            ("last Friday", day(11, 20)),
            ("last night", vec![((2026, 11, 25), (2026, 11, 26))]),
            ("over the weekend", vec![((2026, 11, 21), (2026, 11, 22))]),
            ("the week before last", vec![((2026, 11, 11), (2026, 11, 19))]),
            ("the month before last", vec![((2026, 9, 1), (2026, 9, 30))]),
            ("last September", vec![((2026, 9, 1), (2026, 9, 30))]),
            ("last December", vec![((2025, 12, 1), (2025, 12, 31))]),
            ("in the last fortnight", vec![((2026, 11, 11), (2026, 11, 26))]),
            ("May 8th, 2025", vec![((2025, 5, 8), (2025, 5, 8))]),
            ("two weeks ago", vec![((2026, 11, 9), (2026, 11, 15))]),
            ("three months ago", vec![((2026, 8, 16), (2026, 9, 5))]),
            ("in the past three years", vec![((2023, 11, 26), (2026, 11, 26))]),
            ("a fortnight ago", asked("two weeks ago")),
            ("2 wks back", asked("two weeks ago")),
            ("half a year ago", asked("six months ago")),
        ] {
            assert!(!found.is_empty(), "{text}");
            assert_eq!(asked(text), found, "{text}");
        }
    }

    #[test]
    fn last_month_ends_with_its_last_day() {
        assert_eq!(asked("last month"), [((2026, 10, 1), (2026, 10, 31))]);
        assert_eq!(asked("this month"), [((2026, 11, 1), (2026, 11, 26))]);
    }

    #[test]
    fn two_dates_of_a_range_are_one_window() {
        for (text, first, last) in [
            ("between 3 May 2025 and 7 June 2025", (2025, 5, 3), (2025, 6, 7)),
            ("between May and July 2025", (2025, 5, 1), (2025, 7, 31)),
            ("between March and May of 2025", (2025, 3, 1), (2025, 5, 31)),
            ("from November to February 2025", (2024, 11, 1), (2025, 2, 28)),
            ("from November 2025 to March", (2025, 11, 1), (2026, 3, 31)),
            ("from the 3rd of May to the 9th of May 2026", (2026, 5, 3), (2026, 5, 9)),
            ("from 2025-03-01 until 2025-04-15", (2025, 3, 1), (2025, 4, 15)),
            ("from 2024 to 2025", (2024, 1, 1), (2025, 12, 31)),
            ("from last month to yesterday", (2026, 10, 1), (2026, 11, 25)),
        ] {
            assert_eq!(asked(text), [(first, last)], "{text}");
        }
        // Without a year, it matches every year.
        let years: Vec<_> = asked("between June and August").into_iter().collect();
        assert_eq!(years, [2024, 2025, 2026].map(|year| ((year, 6, 1), (year, 8, 31))));
        // If they do not form a range, they stay two dates.
        assert_eq!(asked("between 2026 and 2025"), [asked("2026"), asked("2025")].concat());
        assert_eq!(asked("from Oslo to march").len(), 0);
        assert_eq!(asked(&"from between ".repeat(10_000)), []);
    }

    #[test]
    fn what_only_looks_like_a_time_is_none() {
        for text in [
            "Python 3.10.12",
            "come back",
            "1.5 litres",
            "as of May 2025",
            "the weekend of the race",
            "half a cake",
        ] {
            assert_eq!(asked(text), [], "{text}");
        }
    }

    #[test]
    fn a_month_without_a_year_is_that_of_each_year() {
        let years: Vec<_> = asked("in March").into_iter().map(|((year, ..), _)| year).collect();
        assert_eq!(years, [2024, 2025, 2026]);
    }
}
