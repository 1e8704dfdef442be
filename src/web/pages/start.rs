//! First page with its form, and the question before a start.

use maud::{Markup, html};

use crate::units::{SECOND_NS, show_age, show_rate};
use crate::web::app::App;
use crate::web::guard::Asker;
use crate::web::queue::Offer;
use crate::web::request::{Fields, QUICK_NS, Refusal, Typed, test_of};
use crate::web::run_store::RunName;
use crate::web::site::length;
use crate::web::state::State;

use super::{login_address, mark, page, rows, sentence};

/// First page: runs under way, the form that starts a run, and the latest runs. The form has the values in `typed`.
pub(crate) fn home(
    app: &App,
    asker: &Asker,
    typed: &Typed,
    refusal: Option<&Refusal>,
    under_way: &[State],
    latest: &[State],
) -> Markup {
    let body = html! {
        @if !under_way.is_empty() {
            h2 { "Queued and running" }
            (rows(app, asker, under_way))
        }
        h1 { "Start a run" }
        @if asker.is_known { (form(app, asker, typed, refusal)) } @else {
            p { a .button href=(login_address(app, asker)) { "Log in to start a run" } }
        }
        @if !latest.is_empty() {
            h2 { "Latest results" }
            (rows(app, asker, latest))
        }
    };
    page(app, asker, "Start a run", None, body)
}

/// The form. It only asks the question, so that it has an address and a browser can go back to it.
fn form(app: &App, asker: &Asker, typed: &Typed, refusal: Option<&Refusal>) -> Markup {
    let site = &app.queue.site;
    let user = asker.user.as_deref().unwrap_or_default();
    let default = |name: &str| if name == "by" { user } else { "" };
    let value = |name: &str| typed.get(name).map_or(default(name), String::as_str);
    let refusals: Vec<&Refusal> = refusal.into_iter().flat_map(Refusal::all).collect();
    let wrong = |name: &str| refusals.iter().find(|one| one.field == name).copied();
    let is_wrong = |name: &str| wrong(name).map(|_| "true");
    let described = |name: &str| match wrong(name) {
        Some(_) => format!("{name}-help {name}-wrong"),
        None => format!("{name}-help"),
    };
    // A page has one first field.
    let inputs = ["hosts", "phases", "time", "rate", "by", "note"];
    let first_wrong = inputs.into_iter().find(|name| wrong(name).is_some());
    let has_focus = |name: &str| first_wrong == Some(name);
    let text = |name: &str, label: &str, fill: &str, most: u32, help: &str| {
        // Other commands have no time of a test.
        let of_load = (name == "time").then_some("load");
        html! {
            label for=(name) class=[of_load] { (label) }
            input #(name) class=[of_load] name=(name) value=(value(name)) maxlength=(most) list=[(name == "time").then_some("time-list")] autocomplete=(fill) autocapitalize="off"
                spellcheck="false" aria-describedby=(described(name)) aria-invalid=[is_wrong(name)] autofocus[has_focus(name)];
            (complaint(name, wrong(name)))
            span class={ "note" @if of_load.is_some() { " load" } } id={ (name) "-help" } { (help) }
        }
    };
    let most = length(site.limits.time_ns);
    let usual_ns = site.limits.time_ns.min(QUICK_NS);
    let rate_help = match site.limits.rate_bits_per_s {
        Some(most) => {
            let most = show_rate(most as f64);
            format!("Such as 1G. At most {most}, which is also the default.")
        }
        None => "Such as 1G. Without it, the rate is unlimited.".to_owned(),
    };
    // These have no place of their own in this form.
    let is_elsewhere = |field: &str| match field {
        "group" => site.groups.is_empty(),
        "hosts" => !site.allow.free_hosts,
        field => field == "run",
    };
    let phases = typed.get("phases").filter(|text| !text.is_empty());
    let phases = phases.map_or("2", String::as_str);
    html! {
        @for refusal in refusals.iter().filter(|refusal| is_elsewhere(refusal.field)) {
            p role="alert" .complaint { (sentence(&refusal.what)) }
        }
        form .fields action={ (app.base) "/confirm" } {
            @if !site.groups.is_empty() {
                label for="group" { "Hosts" }
                select #group name="group" aria-invalid=[is_wrong("group")] aria-describedby=[wrong("group").map(|_| "group-wrong")] {
                    @if site.allow.free_hosts { option value="" { "enter host names below" } }
                    @for (one, group) in site.groups_in_order() { option value=(one) selected[one == value("group")] { (one) " (" (group.listed()) ")" } }
                }
                (complaint("group", wrong("group")))
            }
            @if site.allow.free_hosts { (text("hosts", "Host names", "off", 4096, "Such as n1,n2 or n[01-16].")) }
            (tests(app, typed, wrong("profile").or(wrong("pattern"))))
            label .load for="phases" { "Phases" }
            input #phases .load name="phases" type="number" min="2" max=(site.allow.phases) value=(phases) required aria-describedby=(described("phases"))
                aria-invalid=[is_wrong("phases")] autofocus[has_focus("phases")];
            (complaint("phases", wrong("phases")))
            span .note .load #phases-help { "2: every node sends and receives. With 3 or more, nodes also pass blocks on, which loads the ports as a relay does." }
            (text("time", "Time per test", "off", 12, &format!("Such as {}. Default: {} with quick, 30 s for each permutation with acceptance. At most {most}.", length(usual_ns), length(usual_ns))))
            datalist #time-list { @for one in [5, 30, 60].into_iter().filter(|one| one * SECOND_NS <= site.limits.time_ns) { option value={ (one) "s" } {} } }
            (text("rate", "Rate per link", "off", 12, &rate_help))
            (text("by", "Your name", "name", 64, "Other users of this site see it."))
            (text("note", "Purpose", "off", 200, "For example: new cable at Eth1/8."))
            button { "Continue" }
        }
    }
}

/// The choice of a test: one for each profile and its pattern, so that a user cannot choose a pattern that the profile ignores. A test that every group
/// refuses cannot be chosen.
fn tests(app: &App, typed: &Typed, wrong: Option<&Refusal>) -> Markup {
    let allow = &app.queue.site.allow;
    let chosen = test_of(typed);
    let choices = allow.profiles.iter().flat_map(|profile| {
        let patterns: &[String] = match profile.as_str() {
            "quick" => &allow.patterns,
            _ => &[],
        };
        let own = patterns.iter().map(String::as_str);
        let none = patterns.is_empty().then_some("");
        own.chain(none)
            .map(move |pattern| (profile.as_str(), pattern))
    });
    let choices = choices.map(|(profile, pattern)| {
        let lengths = app.queue.lengths(profile, pattern);
        let refusal = lengths.iter().find_map(|one| one.as_ref().err()).cloned();
        let known: Vec<u64> = lengths.into_iter().filter_map(Result::ok).collect();
        let refusal = refusal.filter(|_| known.is_empty() && !allow.free_hosts);
        (profile, pattern, known, refusal)
    });
    let choices: Vec<_> = choices.collect();
    let is_chosen = |profile: &str, pattern: &str| {
        chosen[0] == profile && (pattern.is_empty() || chosen[1] == pattern)
    };
    let at = choices
        .iter()
        .position(|(profile, pattern, ..)| is_chosen(profile, pattern));
    let first = choices.iter().position(|(.., refusal)| refusal.is_none());
    html! {
        span #tests { "Test" }
        div .choices role="radiogroup" aria-labelledby="tests" {
            @for (index, (profile, pattern, known, refusal)) in choices.iter().enumerate() {
                @let id = format!("test-{profile}-{pattern}");
                @let value = format!("{profile} {pattern}");
                div {
                    input #(id) type="radio" name="test" value=(value.trim()) checked[at.or(first) == Some(index)] disabled[refusal.is_some()]
                        aria-describedby={ (id) "-help" };
                    label for=(id) { (profile) @if !pattern.is_empty() { ", " (pattern) } }
                    span .note id={ (id) "-help" } {
                        @match refusal {
                            Some(refusal) => { "Not possible here: " (refusal.what) "." }
                            None => { (explained(profile, pattern)) (takes(known)) "." }
                        }
                    }
                }
            }
        }
        (complaint("tests", wrong))
    }
}

/// What a test loads.
fn explained(profile: &str, pattern: &str) -> &'static str {
    let name = pattern.split(':').next().unwrap_or_default();
    match (profile, name) {
        ("acceptance", _) => {
            "The acceptance test: permutations, losses, then all ports at once, three times"
        }
        ("linktest", _) => "The link test: each pair of hosts alone, until all pairs are measured",
        ("latency", _) => "Round trips of chosen pairs, and from them the latency of each cable",
        ("imb", _) => "Patterns of the Intel MPI Benchmarks, one after the other",
        ("soak", _) => "All ports at once, for a day",
        (_, "all-to-all") => "Every node sends to every node and to itself: all ports at once",
        (_, "mesh") => "Every node sends to every other node: all ports at once",
        (_, "rotate") => {
            "Each node has one partner at a time: all permutations, one after the other"
        }
        (_, "ring" | "shift") => "Each node sends to one node and receives from one",
        (_, "bisection") if pattern.ends_with("one-way") => {
            "The first half of the nodes sends to the second"
        }
        (_, "bisection") => "Two halves of the nodes send to each other",
        (_, "pairs") => "Neighbours send to each other",
        (_, "incast") => "Several nodes send to the first one",
        (_, "outcast") => "The first node sends to several",
        (_, "hol") => "One congested port, and a pair that must not slow down",
        _ => "A test of this site",
    }
}

/// Planned time of a test on the groups of a site.
fn takes(known_ms: &[u64]) -> String {
    let show = |ms: u64| show_age(ms.div_ceil(1000));
    // Zero: until all is measured.
    match (known_ms.iter().min(), known_ms.iter().max()) {
        (Some(least), Some(most)) if show(*least) != show(*most) => {
            format!(
                "; {} to {}, depending on the group",
                show(*least),
                show(*most)
            )
        }
        (Some(least), _) if *least > 0 => format!("; {}", show(*least)),
        _ => String::new(),
    }
}

/// The error in a field, if any. The field refers to it by its id.
fn complaint(name: &str, refusal: Option<&Refusal>) -> Markup {
    html! { @if let Some(refusal) = refusal { span .complaint role="alert" id={ (name) "-wrong" } { (sentence(&refusal.what)) } } }
}

/// The question before a start.
pub(crate) struct Question<'a> {
    /// Fields of the request.
    pub fields: &'a Fields,
    /// The run.
    pub offer: &'a Offer,
    /// Runs that wait or run, in queue order.
    pub under_way: &'a [State],
    /// Signed name of the run: repeated clicks on the button start one run.
    pub ticket: &'a str,
    /// The run that this question has started, if it has.
    pub started: Option<&'a RunName>,
    /// Values of the form, as in an address.
    pub values: &'a str,
}

/// Page with the question before a start, and the runs on the same fabric that come first.
pub(crate) fn question(app: &App, asker: &Asker, question: &Question) -> Markup {
    let offer = question.offer;
    let same = |state: &&State| {
        let name: Option<RunName> = state.name.parse().ok();
        let request = name.and_then(|name| app.queue.run_store.request(&name));
        request.is_some_and(|request| request.asked.fabric == offer.asked.fabric)
    };
    let before: Vec<&State> = question.under_way.iter().filter(same).collect();
    let fields = question.fields;
    let given = [
        ("requested by", fields.by.trim()),
        ("purpose", fields.note.trim()),
    ];
    let body = html! {
        h1 { (offer.extent.question()) }
        p { (offer.asked.what) ". " @if offer.extent.data_ms > 0 { (number(offer.extent.tests)) } @else { "It ends when all is measured, after " (length(app.queue.site.limits.duration_ns)) " and five minutes at the latest." } }
        p .note {
            "The run slows down all other traffic on these ports."
            @if offer.extent.data_ms > 0 { " It takes longer than this time: pipebench also starts the hosts, drains the links and retests suspects." }
        }
        dl { @for (name, text) in given.into_iter().filter(|(_, text)| !text.is_empty()) { dt { (name) } dd { (text) } } }
        @if let Some(run) = question.started {
            p .notice { "This run was started: " a href={ (app.base) "/runs/" (run) } { (run) } "." }
        } @else {
            @if let Some(first) = before.first() {
                p .notice { "This run will be queued: " (before.len()) " ahead, first " a href={ (app.base) "/runs/" (first.name) } { (first.name) } " by " (first.by) "." }
            }
            form method="post" action={ (app.base) "/start" } {
                (mark(app, asker))
                @for (name, value) in fields.typed() { input type="hidden" name=(name) value=(value); }
                input type="hidden" name="ticket" value=(question.ticket);
                button autofocus { "Start" }
                " "
                a .button .plain href={ (app.base) "/?" (question.values) } { "Back" }
            }
        }
    };
    page(app, asker, "Start this run?", None, body)
}

fn number(tests: usize) -> String {
    match tests {
        1 => "One test.".to_owned(),
        tests => format!("{tests} tests, one after the other."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::app::tests::app;

    fn typed(values: &[(&str, &str)]) -> Typed {
        let own = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        own.collect()
    }

    fn shown(values: &[(&str, &str)], refusal: Option<&Refusal>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let asker = Asker::default();
        form(&app(folder.path()), &asker, &typed(values), refusal).into_string()
    }

    /// Symptom: no word on quick and acceptance, and a pattern could be chosen that `acceptance` silently ignored.
    #[test]
    fn each_test_is_one_choice_with_what_it_loads_and_how_long() {
        let page = shown(&[], None);
        for text in [
            "all permutations, one after the other; 11 s.",
            "Every node sends to every node and to itself",
            "The acceptance test: ",
            "Not possible here: --pattern mesh needs more nodes.",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert_eq!(page.matches("value=\"acceptance\"").count(), 1);
        let has = |attributes: &str| {
            let tag = format!("id=\"test-{attributes}");
            assert!(page.contains(&tag), "{tag}: {page}");
        };
        has("quick-all-to-all\" type=\"radio\" name=\"test\" value=\"quick all-to-all\" checked");
        has("quick-mesh\" type=\"radio\" name=\"test\" value=\"quick mesh\" disabled");
        let again = shown(&[("profile", "acceptance"), ("pattern", "mesh")], None);
        assert!(again.contains("value=\"acceptance\" checked"), "{again}");
        // The first group of the file comes first, too.
        let place = |group: &str| page.find(&format!("<option value=\"{group}\"")).unwrap();
        assert!(place("rack 7") < place("local"), "{page}");
    }

    /// Symptom: "11 s to 11 s, depending on the group".
    #[test]
    fn times_that_read_alike_are_no_range() {
        assert_eq!(takes(&[10_200, 11_000]), "; 11 s");
        let range = "; 11 s to 21 s, depending on the group";
        assert_eq!(takes(&[20_400, 10_200]), range);
        assert_eq!(takes(&[0, 0]), "");
    }

    /// Symptom: the error appeared twice ("time: time "10 apples"..."), and with a wrong number of phases the form came back empty.
    #[test]
    fn an_error_appears_once_and_what_was_typed_comes_back() {
        let values = [
            ("time", "10 apples"),
            ("phases", "1e1"),
            ("note", "new cable"),
            ("test", "quick rotate"),
        ];
        for field in ["time", "phases", "run", "hosts"] {
            let page = shown(&values, Some(&Refusal::of(field, "cannot be read")));
            assert_eq!(page.matches("Cannot be read.<").count(), 1, "{page}");
            assert_eq!(page.matches("role=\"alert\"").count(), 1, "{page}");
            assert!(page.contains("value=\"quick rotate\" checked"), "{page}");
            for (_, value) in &values[..3] {
                assert!(
                    page.contains(&format!("value=\"{value}\"")),
                    "{value}: {page}"
                );
            }
        }
    }

    /// Symptom: only the first wrong field was named, in lower case.
    #[test]
    fn each_wrong_field_has_its_sentence_beside_it() {
        let mut refusal = Refusal::of("note", "must be one line");
        refusal.others = vec![
            Refusal::of("time", "time \"x\" cannot be read"),
            Refusal::of("run", "--mtu 9000 does not fit"),
        ];
        let page = shown(&[], Some(&refusal));
        for text in [
            "id=\"note-wrong\">Must be one line.</span>",
            "id=\"time-wrong\">Time &quot;x&quot; cannot be read.</span>",
            "aria-describedby=\"time-help time-wrong\"",
            ">--mtu 9000 does not fit.</p>",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert_eq!(page.matches("role=\"alert\"").count(), 3, "{page}");
        assert_eq!(page.matches("autofocus").count(), 1, "{page}");
    }

    /// Symptom: after an error, the name from the web server's login was missing.
    #[test]
    fn a_name_that_the_form_began_with_is_there_after_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path());
        let asker = Asker {
            user: Some("anna".to_owned()),
            ..Asker::default()
        };
        let refusal = Refusal::of("time", "cannot be read");
        let form = |values: &[(&str, &str)]| {
            form(&app, &asker, &typed(values), Some(&refusal)).into_string()
        };
        assert!(form(&[("time", "x")]).contains("name=\"by\" value=\"anna\""));
        assert!(form(&[("by", "")]).contains("name=\"by\" value=\"\""));
    }

    /// Symptom: Back after Start asked "Confirm Form Resubmission", since the question was the answer to a form.
    #[test]
    fn the_form_is_sent_in_an_address_and_its_question_starts_one_run() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path());
        let page = form(&app, &Asker::default(), &Typed::new(), None).into_string();
        assert!(
            page.contains("action=\"/confirm\"") && !page.contains("post"),
            "{page}"
        );
        let values = [("group", "rack 7"), ("by", "anna"), ("note", "new <cable>")];
        let fields = Fields::read(&typed(&values));
        let offer = app.queue.offer(&fields).unwrap();
        let run = "pb-20261121-101500-abcdef".parse().unwrap();
        let asked = |started| {
            let asked = Question {
                fields: &fields,
                offer: &offer,
                under_way: &[],
                ticket: "a.b",
                started,
                values: "group=rack+7",
            };
            question(&app, &Asker::default(), &asked).into_string()
        };
        let page = asked(None);
        for text in [
            "Loads 4 ports for 11 s.",
            "value=\"a.b\"",
            "href=\"/?group=rack+7\"",
            "action=\"/start\"",
            // Symptom: the question did not show for whom and why.
            "<dt>requested by</dt><dd>anna</dd><dt>purpose</dt><dd>new &lt;cable&gt;</dd>",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        let page = asked(Some(&run));
        assert!(
            page.contains("This run was started") && !page.contains("/start"),
            "{page}"
        );
    }
}
