//! First page with its form, and the question before a start.

use maud::{Markup, html};

use crate::units::show_rate;
use crate::web::app::App;
use crate::web::guard::Asker;
use crate::web::queue::Offer;
use crate::web::request::{Fields, Refusal};
use crate::web::run_store::RunName;
use crate::web::site::length;
use crate::web::state::State;

use super::{mark, page, rows};

/// First page: runs under way, the form that starts a run, and the latest runs.
pub(crate) fn home(
    app: &App,
    asker: &Asker,
    fields: &Fields,
    refusal: Option<&Refusal>,
    under_way: &[State],
    latest: &[State],
) -> Markup {
    let body = html! {
        @if !under_way.is_empty() {
            h2 { "Queued and running" }
            (rows(app, under_way))
        }
        h1 { "Start a run" }
        @if asker.is_known { (form(app, asker, fields, refusal)) } @else {
            p { a .button href={ (app.base) "/login" } { "Log in to start a run" } }
        }
        @if !latest.is_empty() {
            h2 { "Latest results" }
            (rows(app, latest))
        }
    };
    page(app, asker, "Start a run", None, body)
}

fn form(app: &App, asker: &Asker, fields: &Fields, refusal: Option<&Refusal>) -> Markup {
    let site = &app.queue.site;
    let wrong = |field: &str| refusal.filter(|refusal| refusal.field == field);
    let choice = |name: &str, label: &str, list: &[String], chosen: &str| {
        html! {
            label for=(name) { (label) }
            select #(name) name=(name) aria-invalid=[wrong(name).map(|_| "true")] {
                @for one in list { option value=(one) selected[one == chosen] { (one) } }
            }
            (complaint(wrong(name)))
        }
    };
    let text = |name: &str, label: &str, value: &str, hint: &str, most: u32| {
        html! {
            label for=(name) { (label) }
            input #(name) name=(name) value=(value) maxlength=(most) placeholder=(hint) autocomplete="off" autocapitalize="off" spellcheck="false"
                aria-invalid=[wrong(name).map(|_| "true")];
            (complaint(wrong(name)))
        }
    };
    let most = length(site.limits.time_ns);
    let time_hint = format!("default: set by the profile; at most {most}");
    let rate_hint = match site.limits.rate_bits_per_s {
        Some(most) => format!(
            "at most {}, which is also the default",
            show_rate(most as f64)
        ),
        None => "default: unlimited".to_owned(),
    };
    let phases = fields.phases.unwrap_or(2);
    html! {
        @if let Some(refusal) = refusal {
            p role="alert" .complaint { (refusal.field) ": " (refusal.what) "." }
        }
        form .fields method="post" action={ (app.base) "/confirm" } {
            (mark(app, asker))
            @if !site.groups.is_empty() {
                label for="group" { "Hosts" }
                select #group name="group" aria-invalid=[wrong("group").map(|_| "true")] {
                    @if site.allow.free_hosts { option value="" selected[fields.group.is_empty()] { "enter host names below" } }
                    @for (one, group) in &site.groups { option value=(one) selected[*one == fields.group] { (one) " (" (group.listed()) ")" } }
                }
                (complaint(wrong("group")))
            }
            @if site.allow.free_hosts { (text("hosts", "Host names", &fields.hosts, "n1,n2 or n[01-16]", 4096)) }
            (choice("profile", "Profile", &site.allow.profiles, &fields.profile))
            (choice("pattern", "Pattern", &site.allow.patterns, &fields.pattern))
            label for="phases" { "Phases" }
            input #phases name="phases" type="number" min="2" max=(site.allow.phases) value=(phases) required aria-invalid=[wrong("phases").map(|_| "true")];
            (complaint(wrong("phases")))
            (text("time", "Time per test", &fields.time, &time_hint, 12))
            (text("rate", "Rate per link", &fields.rate, &rate_hint, 12))
            (text("by", "Your name", &fields.by, "shown to other users of this site", 64))
            (text("note", "Purpose", &fields.note, "for example: new cable at Eth1/8", 200))
            button { "Continue" }
        }
    }
}

fn complaint(refusal: Option<&Refusal>) -> Markup {
    html! { @if let Some(refusal) = refusal { span .complaint { (refusal.what) } } }
}

/// Page with the question before a start, and the runs on the same fabric that come first.
pub(crate) fn question(
    app: &App,
    asker: &Asker,
    fields: &Fields,
    offer: &Offer,
    under_way: &[State],
) -> Markup {
    let same = |state: &&State| {
        let name: Option<RunName> = state.name.parse().ok();
        let request = name.and_then(|name| app.queue.run_store.request(&name));
        request.is_some_and(|request| request.asked.fabric == offer.asked.fabric)
    };
    let before: Vec<&State> = under_way.iter().filter(same).collect();
    let hidden = [
        ("group", &fields.group),
        ("hosts", &fields.hosts),
        ("pattern", &fields.pattern),
        ("profile", &fields.profile),
        ("time", &fields.time),
        ("rate", &fields.rate),
        ("by", &fields.by),
        ("note", &fields.note),
    ];
    let body = html! {
        h1 { (offer.extent.question()) }
        p { (offer.asked.what) ". " (tests(offer.extent.tests)) }
        p .note { "The run slows down all other traffic on these ports. It takes longer than this time: pipebench also starts the hosts, drains the links and retests suspects." }
        @if let Some(first) = before.first() {
            p .notice { "This run will be queued: " (before.len()) " ahead, first " a href={ (app.base) "/runs/" (first.name) } { (first.name) } " by " (first.by) "." }
        }
        form method="post" action={ (app.base) "/start" } {
            (mark(app, asker))
            @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
            input type="hidden" name="phases" value=(fields.phases.unwrap_or(2));
            // Repeated clicks on the button start one run.
            input type="hidden" name="ticket" value=(app.guard.ticket(&app.queue.new_name(), app.queue.now_ms()));
            button autofocus { "Start" }
            " "
            a .button .plain href={ (app.base) "/" } { "Back" }
        }
    };
    page(app, asker, "Start this run?", None, body)
}

fn tests(count: usize) -> String {
    match count {
        1 => "One test.".to_owned(),
        count => format!("{count} tests, one after the other."),
    }
}
