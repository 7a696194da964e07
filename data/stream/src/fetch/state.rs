//! State of the stream: its number, its ending, the rule that decided, whether waiting is over.

use weir_expr::SampleType::{Bool, Int, Str};
use weir_expr::{FetchDecl, Fetched, Needs};

use super::access::Absent;
use super::values::{copied, gauge, number, text, text_if, truth};
use super::{Row, row, valid};
use crate::stream::rule_state::decided_at;

const fn running(name: &'static str, output: weir_expr::SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::RUNNING)
}

pub(super) const ROWS: &[Row] = &[
    row(FetchDecl::new("act_conn", Int, "Client connections of the process"), |stream, _, _| {
        gauge(stream.frontend.instance().connections.inside())
    }),
    row(
        running("last_rule_file", Str, "The file of the last rule that ended its rule set"),
        |stream, _, _| text_if(decided_at(stream).map(|at| at.file.as_bytes())),
    ),
    row(
        running("last_rule_line", Int, "The line of the last rule that ended its rule set"),
        |stream, _, _| decided_at(stream).map_or(Fetched::Missing, |at| number(at.line)),
    ),
    row(running("prio_class", Int, "The priority class of the stream in queues"), |stream, _, _| {
        number(stream.choice.priority.class())
    }),
    row(
        running("prio_offset", Int, "The priority offset of the stream in queues, in milliseconds"),
        |stream, _, _| number(stream.choice.priority.offset_ms()),
    ),
    row(running("txn.id32", Int, "The number of the stream, as 32 bits"), |stream, _, _| {
        number(stream.serial as u32)
    }),
    row(
        running("txn.sess_term_state", Str, "How the stream ended so far, in the two letters of the log"),
        |stream, _, _| copied(&stream.ending.letters()),
    ),
    row(running("wait_end", Bool, "True once content inspection waits for nothing more"), |stream, _, _| {
        match stream.absent() {
            Absent::Later => Fetched::Later,
            Absent::Missing => truth(true),
        }
    }),
    row(FetchDecl::new("unique-id", Str, "The unique identifier of the request"), |stream, _, _| {
        text_if(stream.log_line().unique_id())
    }),
    row(
        FetchDecl::new("fe_name", Str, "The name of the frontend")
            .valid(valid::FRONTEND)
            .needs(Needs::FRONTEND),
        |stream, _, _| text(stream.frontend.name().as_bytes()),
    ),
    row(
        FetchDecl::new("fe_id", Int, "The identifier of the frontend")
            .valid(valid::FRONTEND)
            .needs(Needs::FRONTEND),
        |stream, _, _| number(stream.frontend.config.id),
    ),
    row(
        FetchDecl::new("fe_defbe", Str, "The name of the frontend's default backend")
            .valid(valid::FRONTEND)
            .needs(Needs::FRONTEND),
        |stream, _, _| {
            let index = stream.frontend.config.default_backend;
            let backend = index.and_then(|index| stream.frontend.instance().proxies.get(index.get()));
            text_if(backend.map(|backend| backend.name().as_bytes()))
        },
    ),
    row(
        FetchDecl::new("so_id", Int, "The identifier of the listener")
            .valid(valid::FRONTEND)
            .needs(Needs::LISTENER),
        |stream, _, _| number(stream.session.listener().id),
    ),
    row(
        FetchDecl::new("so_name", Str, "The name that the bind line gives the listener")
            .valid(valid::FRONTEND)
            .needs(Needs::LISTENER),
        |stream, _, _| {
            let listener = stream.session.listener();
            text_if(listener.bind.name.as_deref().map(str::as_bytes))
        },
    ),
    row(
        FetchDecl::new("be_name", Str, "The name of the backend").valid(valid::BACKEND).needs(Needs::BACKEND),
        |stream, _, _| text(stream.backend.name().as_bytes()),
    ),
    row(
        FetchDecl::new("be_id", Int, "The identifier of the backend")
            .valid(valid::BACKEND)
            .needs(Needs::BACKEND),
        |stream, _, _| number(stream.backend.config.id),
    ),
    row(
        FetchDecl::new("srv_name", Str, "The name of the server").valid(valid::SERVER).needs(Needs::SERVER),
        |stream, _, _| {
            let server = stream.server_taken();
            server.map_or(Fetched::Missing, |server| copied(server.name().as_bytes()))
        },
    ),
    row(
        FetchDecl::new("srv_id", Int, "The identifier of the server")
            .valid(valid::SERVER)
            .needs(Needs::SERVER),
        |stream, _, _| {
            let server = stream.server_taken();
            server.map_or(Fetched::Missing, |server| number(server.id()))
        },
    ),
    row(
        FetchDecl::new("txn.conn_retries", Int, "How often connecting to a server was tried again")
            .valid(valid::ANSWERED)
            .needs(Needs::L4_SERVER),
        |stream, _, _| number(stream.attempts.retries),
    ),
    row(
        FetchDecl::new("txn.redispatched", Bool, "Whether another server than the first was tried")
            .valid(valid::ANSWERED)
            .needs(Needs::L4_SERVER),
        |stream, _, _| truth(stream.choice.redispatched),
    ),
];
