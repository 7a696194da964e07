//! State of the stream: its number, its termination, the last final rule, whether waiting is over.

use weir_expr::SampleType::{Bool, Int, Str};
use weir_expr::{FetchDecl, FetchResult, Needs};
use weir_model::FcgiApplication;

use super::access::of_stream;
use super::values::{copied, gauge, number, text_if, truth};
use super::{FetchRow, row, valid};
use crate::view::FetchView;

const fn running(name: &'static str, output: weir_expr::SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::RUNNING)
}

const fn application(name: &'static str, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, Str, help).valid(valid::REQUEST).needs(Needs::HTTP_REQUEST)
}

/// The application of the stream's backend. None before the backend is chosen.
fn application_of(view: &dyn FetchView) -> Option<&FcgiApplication> {
    view.backend()?.config.settings.application.as_deref()
}

pub(super) const ROWS: &[FetchRow] = &[
    row(FetchDecl::new("act_conn", Int, "Client connections of the process"), |view, _, _| {
        gauge(view.objects().connections())
    }),
    row(running("last_rule_file", Str, "The file of the last rule that ended its rule set"), |view, _, _| {
        text_if(view.decided_at().map(|at| at.file.as_bytes()))
    }),
    row(running("last_rule_line", Int, "The line of the last rule that ended its rule set"), |view, _, _| {
        view.decided_at().map_or(FetchResult::Missing, |at| number(at.line))
    }),
    row(running("prio_class", Int, "The priority class of the stream in queues"), |view, _, _| {
        of_stream(view, |stream| number(stream.priority.class()))
    }),
    row(
        running("prio_offset", Int, "The priority offset of the stream in queues, in milliseconds"),
        |view, _, _| of_stream(view, |stream| number(stream.priority.offset_ms())),
    ),
    row(running("txn.id32", Int, "The number of the stream, as 32 bits"), |view, _, _| {
        of_stream(view, |stream| number(stream.serial as u32))
    }),
    row(
        running("txn.sess_term_state", Str, "How the stream ended so far, in the two letters of the log"),
        |view, _, _| of_stream(view, |stream| copied(&stream.ending)),
    ),
    row(running("wait_end", Bool, "True once content inspection waits for nothing more"), |view, _, _| {
        if view.may_wait() { FetchResult::Later } else { truth(true) }
    }),
    row(FetchDecl::new("unique-id", Str, "The unique identifier of the request"), |view, _, _| {
        text_if(view.unique_id())
    }),
    row(
        FetchDecl::new("fe_name", Str, "The name of the frontend")
            .valid(valid::FRONTEND)
            .needs(Needs::FRONTEND),
        |view, _, _| text_if(view.frontend().map(|frontend| frontend.config.name.as_bytes())),
    ),
    row(
        FetchDecl::new("fe_id", Int, "The identifier of the frontend")
            .valid(valid::FRONTEND)
            .needs(Needs::FRONTEND),
        |view, _, _| view.frontend().map_or(FetchResult::Missing, |frontend| number(frontend.config.id)),
    ),
    row(
        FetchDecl::new("fe_defbe", Str, "The name of the frontend's default backend")
            .valid(valid::FRONTEND)
            .needs(Needs::FRONTEND),
        |view, _, _| {
            let index = view.frontend().and_then(|frontend| frontend.config.default_backend);
            let backend = index.and_then(|index| view.objects().proxy(index.get()));
            text_if(backend.map(|backend| backend.config.name.as_bytes()))
        },
    ),
    row(
        FetchDecl::new("so_id", Int, "The identifier of the listener")
            .valid(valid::FRONTEND)
            .needs(Needs::LISTENER),
        |view, _, _| view.listener().map_or(FetchResult::Missing, |listener| number(listener.id)),
    ),
    row(
        FetchDecl::new("so_name", Str, "The name that the bind line gives the listener")
            .valid(valid::FRONTEND)
            .needs(Needs::LISTENER),
        |view, _, _| text_if(view.listener().and_then(|listener| listener.name).map(str::as_bytes)),
    ),
    row(
        FetchDecl::new("be_name", Str, "The name of the backend").valid(valid::BACKEND).needs(Needs::BACKEND),
        |view, _, _| text_if(view.backend().map(|backend| backend.config.name.as_bytes())),
    ),
    row(
        FetchDecl::new("be_id", Int, "The identifier of the backend")
            .valid(valid::BACKEND)
            .needs(Needs::BACKEND),
        |view, _, _| view.backend().map_or(FetchResult::Missing, |backend| number(backend.config.id)),
    ),
    row(
        application("fcgi.docroot", "The document root of the backend's FastCGI application"),
        |view, _, _| text_if(application_of(view).map(|application| application.docroot.as_bytes())),
    ),
    row(application("fcgi.index", "The index script of the backend's FastCGI application"), |view, _, _| {
        text_if(application_of(view).and_then(|application| application.index.as_deref()).map(str::as_bytes))
    }),
    row(
        FetchDecl::new("srv_name", Str, "The name of the server").valid(valid::SERVER).needs(Needs::SERVER),
        |view, _, _| view.server().map_or(FetchResult::Missing, |server| copied(server.name().as_bytes())),
    ),
    row(
        FetchDecl::new("srv_id", Int, "The identifier of the server")
            .valid(valid::SERVER)
            .needs(Needs::SERVER),
        |view, _, _| view.server().map_or(FetchResult::Missing, |server| number(server.id())),
    ),
    row(
        FetchDecl::new("txn.conn_retries", Int, "How often connecting to a server was tried again")
            .valid(valid::ANSWERED)
            .needs(Needs::L4_SERVER),
        |view, _, _| of_stream(view, |stream| number(stream.retries)),
    ),
    row(
        FetchDecl::new("txn.redispatched", Bool, "Whether another server than the first was tried")
            .valid(valid::ANSWERED)
            .needs(Needs::L4_SERVER),
        |view, _, _| of_stream(view, |stream| truth(stream.redispatched)),
    ),
];
