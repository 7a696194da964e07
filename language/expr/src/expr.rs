//! A sample expression: one fetch, then converters.

pub mod script;

use std::fmt;

use weir_fingerprint::{Canonical, FormEncoder};

use crate::args::{ArgError, Args, Reference, parse_args, split_args};
use crate::bound::AtBound;
use crate::context::{Context, FetchCursor, FetchResult};
use crate::converters::{self, Converter, Run};
use crate::error::{ParseError, show};
use crate::fetch::{EvaluationPoints, FetchAnswer, FetchDecl};
use crate::internal;
use crate::sample::{Sample, SampleFlags, SampleType, Value};
use crate::scope::ExpressionScope;

/// A parsed expression, ready to be evaluated any number of times.
#[derive(Clone, Canonical)]
pub struct Expr {
    #[canonical(with = encode_fetch)]
    decl: &'static FetchDecl,
    #[canonical(skip = "follows from the fetch")]
    answer: FetchAnswer,
    args: Args,
    converters: Box<[Call]>,
    /// The number of converters at the beginning that need only the sample.
    #[canonical(skip = "follows from the converters")]
    pure: usize,
    #[canonical(skip = "follows from the converters")]
    output: SampleType,
    #[canonical(skip = "as written; the fetch and the converters have the meaning")]
    text: Box<str>,
}

/// One converter in an expression, with its arguments.
#[derive(Clone, Debug, Canonical)]
pub(crate) struct Call {
    #[canonical(with = encode_converter)]
    pub converter: &'static Converter,
    pub args: Args,
    /// The type that the input is cast to before the call.
    #[canonical(skip = "follows from the converter before it")]
    pub input: SampleType,
}

/// Encoded as the name: within one program, a name always means the same fetch.
fn encode_fetch(decl: &FetchDecl, out: &mut FormEncoder<'_>) {
    out.text(decl.name);
}

fn encode_converter(converter: &Converter, out: &mut FormEncoder<'_>) {
    out.text(converter.name);
}

/// The limit of converters in one expression.
pub(crate) const MAX_CONVERTERS: usize = 256;

impl Expr {
    /// Parses the expression that begins at `words[*at]`, and advances `at` past it.
    ///
    /// Converters follow the fetch after commas; a converter may also be a word of its own.
    pub fn parse(words: &[&[u8]], at: &mut usize, scope: &ExpressionScope<'_>) -> Result<Expr, ParseError> {
        let (expr, end) = Self::parse_head(words, *at, scope)?;
        let next = Self::finish(expr, words, *at, end, scope)?;
        *at = next.1;
        Ok(next.0)
    }

    /// Parses an expression that is a whole string: `%[...]`, CLI arguments.
    pub fn parse_text(text: &[u8], scope: &ExpressionScope<'_>) -> Result<Expr, ParseError> {
        let mut at = 0;
        Expr::parse(&[text], &mut at, scope)
    }

    /// Parses the fetch at the beginning of a word. Also returns the offset of its end.
    pub(crate) fn parse_head(
        words: &[&[u8]],
        at: usize,
        scope: &ExpressionScope<'_>,
    ) -> Result<(Expr, usize), ParseError> {
        let word = words
            .get(at)
            .filter(|word| !word.is_empty())
            .ok_or_else(|| ParseError::new(at, "missing fetch method"))?;
        let name_end = name_end(word);
        let name = show(&word[..name_end]);
        let Some((answer, decl)) = scope.fetch(&name) else {
            return Err(unknown_fetch(&name, at, name_end, scope));
        };
        Self::head(decl, answer, word, name_end, at, scope)
    }

    pub(crate) fn head(
        decl: &'static FetchDecl,
        answer: FetchAnswer,
        word: &[u8],
        name_end: usize,
        at: usize,
        scope: &ExpressionScope<'_>,
    ) -> Result<(Expr, usize), ParseError> {
        let fail = |error: ArgError| {
            ParseError::new(at, format!("fetch method '{}' : {}", decl.name, error.message)).at(error.span)
        };
        if !decl.valid.intersects(scope.points) {
            return Err(ParseError::new(
                at,
                format!(
                    "fetch method '{}' extracts information from '{}', none of which is available here",
                    decl.name,
                    decl.needs.names()
                ),
            )
            .at(0..name_end));
        }
        let (raw, end) = match word.get(name_end) {
            Some(b'(') => split_args(word, name_end).map_err(fail)?,
            _ => (Vec::new(), name_end),
        };
        let mut args = parse_args(&decl.args, word, &raw, scope).map_err(fail)?;
        let check = |message| {
            ParseError::new(at, format!("invalid args in fetch method '{}' : {message}", decl.name))
                .at(name_end..end)
        };
        if let Some(run) = decl.check {
            run(&mut args, scope).map_err(check)?;
        }
        let expr = Expr {
            decl,
            answer,
            args,
            converters: Box::default(),
            pure: 0,
            output: decl.output,
            text: show(&word[..end]).into(),
        };
        Ok((expr, end))
    }

    /// Parses the converters after a fetch that ended at byte `end` of `words[at]`. Returns the expression and the index of the next word.
    pub(crate) fn finish(
        mut self,
        words: &[&[u8]],
        mut at: usize,
        mut end: usize,
        scope: &ExpressionScope<'_>,
    ) -> Result<(Expr, usize), ParseError> {
        let mut calls: Vec<Call> = Vec::new();
        let mut text = String::from(&*self.text);
        loop {
            let word = words[at];
            if end == word.len() {
                at += 1;
                end = 0;
                // A word that is not a converter is not part of the expression.
                let Some(next) = words.get(at) else { break };
                let name = show(&next[..name_end(next)]);
                if scope.converter(&name).is_none() {
                    break;
                }
            } else if word[end] == b',' {
                while word.get(end) == Some(&b',') {
                    end += 1;
                }
                if end == word.len() {
                    continue;
                }
            } else {
                let message = match calls.last() {
                    None => format!("missing comma after fetch keyword '{}'", self.text),
                    Some(call) => format!("missing comma after conversion keyword '{}'", call.converter.name),
                };
                return Err(ParseError::new(at, message).at(end..word.len()));
            }
            if calls.len() == MAX_CONVERTERS {
                return Err(ParseError::new(at, "too many converters in one expression"));
            }
            let start = end;
            let (call, call_end) = Call::parse(words[at], start, at, self.output, scope)?;
            text.push(',');
            text.push_str(&show(&words[at][start..call_end]));
            self.output = match call.converter.output {
                SampleType::Same => self.output,
                output => output,
            };
            calls.push(call);
            end = call_end;
        }
        self.pure = calls.iter().take_while(|call| call.converter.is_pure(&call.args)).count();
        self.converters = calls.into();
        self.text = text.into();
        Ok((self, at))
    }

    /// Evaluates the expression. Of several values, takes the one that the fetch prefers.
    pub fn evaluate<'c>(&'c self, context: &'c mut dyn Context) -> FetchResult<'c> {
        self.next(context, &mut FetchCursor::single())
    }

    /// Evaluates the expression and casts the result to a string, for headers and logs.
    pub fn evaluate_str<'c>(&'c self, context: &'c mut dyn Context) -> FetchResult<'c> {
        self.evaluate_as(context, SampleType::Str)
    }

    /// Evaluates the expression and casts the result. A value that cannot be cast is missing.
    pub fn evaluate_as<'c>(&'c self, context: &'c mut dyn Context, target: SampleType) -> FetchResult<'c> {
        match self.evaluate(context) {
            FetchResult::Sample(Sample { value, flags }) => match value.cast(target) {
                Some(value) => FetchResult::Sample(Sample { value, flags }),
                None => FetchResult::Missing,
            },
            other => other,
        }
    }

    /// Evaluates the expression for one of several values: see [`FetchCursor`].
    pub fn next<'c>(&'c self, context: &'c mut dyn Context, cursor: &mut FetchCursor) -> FetchResult<'c> {
        cursor.more = false;
        if self.converters.is_empty() {
            return self.fetch(context, cursor);
        }
        if self.pure == self.converters.len() {
            return match self.fetch(context, cursor) {
                FetchResult::Sample(sample) => apply_pure(&self.converters, sample),
                other => other,
            };
        }
        // The other converters use the context, so the sample must no longer borrow from it.
        let (pure, rest) = self.converters.split_at(self.pure);
        let mut sample = match self.fetch(&mut *context, cursor) {
            FetchResult::Sample(sample) => match apply_pure(pure, sample) {
                FetchResult::Sample(sample) => sample.into_owned(),
                other => return other.into_owned(),
            },
            other => return other.into_owned(),
        };
        for call in rest {
            let flags = sample.flags;
            match call.run(sample, &mut *context) {
                Some(next) => sample = next,
                None => return unfit(flags),
            }
        }
        FetchResult::Sample(sample)
    }

    fn fetch<'c>(&'c self, context: &'c mut dyn Context, cursor: &mut FetchCursor) -> FetchResult<'c> {
        let fetched = match self.answer {
            FetchAnswer::Internal(row) => internal::run(row, context, &self.args, cursor),
            FetchAnswer::Context(index) => context.fetch(index, &self.args, cursor),
            FetchAnswer::Script(name) => context.script_fetch(name, &self.args),
        };
        match fetched {
            FetchResult::Sample(Sample { value, flags }) => match AtBound::CUT_TEXT.fit(value) {
                Some(value) => FetchResult::Sample(Sample { value, flags }),
                None => FetchResult::Missing,
            },
            other => other,
        }
    }

    /// The declaration of the fetch.
    pub fn decl(&self) -> &'static FetchDecl {
        self.decl
    }

    /// The arguments of the fetch.
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// The type of the result, known before evaluation.
    pub fn output(&self) -> SampleType {
        self.output
    }

    /// Where the fetch may be used.
    pub fn points(&self) -> EvaluationPoints {
        self.decl.valid
    }

    /// True if there are converters.
    pub fn has_converters(&self) -> bool {
        !self.converters.is_empty()
    }

    /// Whether all converters need only the sample. Such converters are free of side effects.
    pub fn has_pure_converters(&self) -> bool {
        self.converters.iter().all(|call| call.converter.is_pure(&call.args))
    }

    /// The expression as written in the configuration.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Calls `visit` with every reference to an object of the configuration.
    pub fn visit_references(&self, visit: &mut dyn FnMut(&Reference)) {
        if let FetchAnswer::Script(name) = &self.answer {
            visit(&Reference::to_script(*name));
        }
        self.args.visit_references(visit);
        for call in &self.converters {
            if let Run::Script(name) = &call.converter.run {
                visit(&Reference::to_script(*name));
            }
            call.args.visit_references(visit);
        }
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({})", self.text)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Call {
    pub(crate) fn parse(
        word: &[u8],
        start: usize,
        at: usize,
        input: SampleType,
        scope: &ExpressionScope<'_>,
    ) -> Result<(Call, usize), ParseError> {
        let name_end = start + name_end(&word[start..]);
        let name = show(&word[start..name_end]);
        let Some(converter) = scope.converter(&name) else {
            let error = match converters::is_known(&name) {
                true => ParseError::new(at, format!("converter '{name}' is not implemented yet")),
                false => ParseError::new(at, format!("unknown converter '{name}'"))
                    .suggest(converters::closest(&name)),
            };
            return Err(error.at(start..name_end));
        };
        if !input.casts_to(converter.input) {
            return Err(ParseError::new(at, format!("converter '{name}' cannot be applied"))
                .at(start..name_end)
                .note(format!("it takes {} and gets {}", converter.input.name(), input.name())));
        }
        let fail = |error: ArgError, position: usize| {
            let message = format!("invalid arg {position} in converter '{name}' : {}", error.message);
            ParseError::new(at, message).at(error.span)
        };
        let (raw, end) = match word.get(name_end) {
            Some(b'(') => split_args(word, name_end).map_err(|error| fail(error, 1))?,
            _ => (Vec::new(), name_end),
        };
        let mut args = parse_args(&converter.args, word, &raw, scope).map_err(|error| {
            let position = raw.iter().position(|raw| raw.end >= error.span.start).unwrap_or(raw.len());
            fail(error, position + 1)
        })?;
        if let Some(check) = converter.check {
            check(&mut args, scope).map_err(|message| {
                let message = format!("invalid args in converter '{name}' : {message}");
                ParseError::new(at, message).at(name_end..end)
            })?;
        }
        Ok((Call { converter, args, input: converter.input }, end))
    }

    pub(crate) fn run(&self, sample: Sample<'static>, context: &mut dyn Context) -> Option<Sample<'static>> {
        let Sample { value, flags } = sample;
        let value = value.cast(self.input)?;
        let value = self.converter.run_with(value, &self.args, context)?;
        let value: Value<'static> = self.converter.at_bound.fit(value)?;
        Some(Sample { value, flags: flags.with(self.flags()) })
    }

    fn run_pure<'a>(&'a self, value: Value<'a>) -> Option<Value<'a>> {
        self.converter.at_bound.fit(self.converter.run_pure(value, &self.args)?)
    }

    fn flags(&self) -> SampleFlags {
        SampleFlags::empty()
    }
}

pub(crate) fn apply_pure<'c>(calls: &'c [Call], mut sample: Sample<'c>) -> FetchResult<'c> {
    for call in calls {
        let Sample { value, flags } = sample;
        match value.cast(call.input).and_then(|value| call.run_pure(value)) {
            Some(value) if call.converter.decides => {
                sample = Sample { value, flags: flags.without(SampleFlags::MAY_CHANGE) };
            }
            Some(value) => sample = Sample { value, flags },
            None => return unfit(flags),
        }
    }
    FetchResult::Sample(sample)
}

/// The result if a converter fails. If the sample may still grow, the converter may succeed later.
fn unfit<'c>(flags: SampleFlags) -> FetchResult<'c> {
    if flags.contains(SampleFlags::MAY_CHANGE) { FetchResult::Later } else { FetchResult::Missing }
}

/// Offset of the end of the name at the beginning of a word.
pub(crate) fn name_end(word: &[u8]) -> usize {
    word.iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || b"-_.+".contains(byte)))
        .unwrap_or(word.len())
}

fn unknown_fetch(name: &str, at: usize, name_end: usize, scope: &ExpressionScope<'_>) -> ParseError {
    let error = if crate::fetch::known::is_known(name) {
        ParseError::new(at, format!("fetch method '{name}' is not implemented yet"))
    } else {
        ParseError::new(at, format!("unknown fetch method '{name}'"))
            .suggest(scope.registry.closest_fetch(name))
    };
    error.at(0..name_end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FormatOptions;
    use crate::acl::Truth;
    use crate::testing::{Fixture, TestContext};

    fn with_maps() -> Fixture {
        Fixture::new()
            .file("m.map", "a one\nb two words  \nab 5\n10 ten\n# c\n  d lead\na dup\ne 1.2.3.4\n")
            .file("r.map", "^a(.*)z$ <\\\\1-\\\\0>\n^x y\n")
            .file("r2.map", "^a(.*)z$ <\\1-\\0-\\2>\n^x y\n")
            .file("ip.map", "10.0.0.0/8 ten\n10.1.0.0/16 tenone\n::1 six\n10.1.2.3 exact\n")
            .file("i.map", "1:5 low\n6: high\n3 three\n")
            .file("e.map", "e 1.2.3.4\n")
            .file("n.map", "a 5\n")
            .file("/dev/null", "")
    }

    /// Results of the packaged HAProxy 2.6 for these expressions, written into a body.
    #[test]
    fn expressions_give_haproxys_results() {
        let fixture = with_maps();
        for line in include_str!("../tests/data/expressions.tsv").lines() {
            let (expression, expected) = line.split_once('\t').unwrap();
            let rendered = fixture.render(&format!("%[{expression}]"), FormatOptions::HTTP);
            let result = match rendered.split_once("> : ") {
                Some((_, message)) if rendered.starts_with("error: ") => format!("error: {message}"),
                _ => rendered,
            };
            assert_eq!(result, expected, "{expression}");
        }
    }

    #[track_caller]
    fn check(expression: &str, expected: &str) {
        assert_eq!(with_maps().eval(expression), expected, "{expression}");
    }

    /// Results from the manual, for converters that are newer than HAProxy 2.6.
    #[test]
    fn newer_converters_return_the_manuals_results() {
        check("bin(a501),base2", "1010010100000001");
        check("bin(01020304),le2dec(:,2)", "513:1027");
        check("str(www.example.com),reverse_dom", "com.example.www");
        check("str(abc),reverse", "cba");
        check("str(a=1&b=2&c),param(b)", "2");
        check("str(a=1&b=2&c),param(c)", "");
        check("str(a=1&b=2&c),param(d)", "-");
        check("str(a=1;bb=2;b=3),param(b,;)", "3");
        check("bin(6162),has_ctl", "0");
        check("bin(610a62),has_ctl", "1");
        check("bin(610a62),has_ctl(0x1)", "0");
        check("bin(610a62),has_ctl(1024)", "1");
        check("bin(6109),has_ctl", "0");
        check("bin(6109),has_ctl(any)", "1");
        check("bin(7f),has_ctl", "1");
        check("bin(617f09),has_ctl(http)", "0");
        check("bin(610d),has_ctl(http)", "1");
        check("str(a=1&b=2),param(b,0x26)", "2");
        check("str(a=1;b=2),param(b,0x3b)", "2");
        check("str(example.com.),reverse_dom", "com.example");
        check("str(a..b),reverse_dom", "-");
        check("str(.),reverse_dom", "-");
        check("str(Thu),ub64dec,hex", "4E1B");
        check("str(Th==),b64dec,hex", "4E");
        check("str(\"\"),hex2i", "0");
        check("str(9223372036854775807),hex2i", "3707029189907929095");
        check("str(H.Example:81),host_only", "h.example");
        check("str(frontend),fe_exists", "1");
        check("str(backend/server),srv_is_up", "1");
        check("str(backend),nbsrv", "3");
        check("str(backend/server),srv_queue", "2");
        check("str(nothing),srv_queue", "-");
        check("int(1700000000123),ms_utime(%H:%M:%S.%3N)", "22:13:20.123");
        check("int(1700000000123456),us_utime(%6N)", "123456");
        check("int(1700000000123),ms_ltime(%3N %Z)", "123 UTC");
        check("str('Tue, 14 Nov 2023 22:13:20 GMT'),date", "1700000000");
        check("str('Tuesday, 14-Nov-23 22:13:20 GMT'),date", "1700000000");
        check("str('Tue Nov 14 22:13:20 2023'),date", "1700000000");
        check("str('Tue, 14 Nov 2023 25:13:20 GMT'),date", "-");
        check("str(yesterday),date", "-");
        check("str(abc),map_beg_key(m.map)", "ab");
        check("ipv4(10.1.2.4),map_ip_key(ip.map)", "10.1.0.0/16");
        check("str(zz),map_str_ip(e.map,10.0.0.1)", "10.0.0.1");
    }

    /// A part that was cut away is empty. A part that never existed is missing, or may still arrive if the sample grows.
    #[test]
    fn converters_distinguish_empty_from_missing_results() {
        check("str(a/b),field(3,/)", "-");
        check("str(a/b),field(-3,/)", "-");
        check("str(a/),field(2,/),length", "0");
        check("str(abc),bytes(9),length", "0");
        check("path,field(2,/)", "path");
        check("path,field(3,/)", "later");
        check("path,field(3,/),set-var(txn.a)", "later");
    }

    /// A message that is known to be invalid is refused at once, even if more bytes may come.
    #[test]
    fn validity_converters_reject_partial_messages_at_once() {
        let fixture = with_maps();
        for (condition, expected) in [
            ("if { path -m str other }", Truth::Maybe),
            ("if { path,fix_is_valid }", Truth::Maybe),
            ("if { path,mqtt_is_valid }", Truth::False),
        ] {
            let condition = fixture.condition(condition).unwrap();
            fixture.acls.seal();
            assert_eq!(condition.evaluate(&mut TestContext::default()), expected);
        }
    }

    #[test]
    fn rfc7239_converters_parse_the_forwarded_header() {
        let header = "'for=\"[2001:db8::1]:4711\";proto=https;host=\"a.example:80\"'";
        check(&format!("str({header}),rfc7239_is_valid"), "1");
        check(&format!("str({header}),rfc7239_field(for)"), "[2001:db8::1]:4711");
        check(&format!("str({header}),rfc7239_field(for),rfc7239_n2nn"), "2001:db8::1");
        check(&format!("str({header}),rfc7239_field(for),rfc7239_n2np"), "4711");
        check(&format!("str({header}),rfc7239_field(host)"), "a.example:80");
        check(&format!("str({header}),rfc7239_field(by)"), "-");
        for (text, valid) in [
            ("for=127.0.0.1", "1"),
            ("for=\"_gateway:_port\"", "1"),
            ("for=_gateway:_port", "0"),
            ("for=unknown", "1"),
            ("For=127.0.0.1;Proto=http", "1"),
            ("for=127.0.0.1;for=127.0.0.1", "0"),
            ("for=127.0.0.1;", "0"),
            ("for=\"127.0.0.1", "0"),
            ("for=127.0.0.1 ;proto=http", "0"),
            ("for=nonsense", "0"),
            ("other=1", "0"),
            ("for", "0"),
            ("", "0"),
        ] {
            check(&format!("str('{text}'),rfc7239_is_valid"), valid);
        }
        check("ipv6(2001:db8::1),rfc7239_nn", "[2001:db8::1]");
        check("ipv4(127.0.0.1),rfc7239_nn", "127.0.0.1");
        check("str(_me),rfc7239_nn", "__me");
        check("str(),rfc7239_nn", "unknown");
        check("str(80),rfc7239_np", "_80");
        check("int(80),rfc7239_np", "80");
        check("int(70000),rfc7239_np", "-");
        check(
            "str(x),rfc7239_field(other)",
            "error: invalid args in converter 'rfc7239_field' : Invalid rfc7239 field 'other': expects 'proto', 'host', 'for' or 'by'",
        );
    }

    #[test]
    fn variables_keep_the_type_of_their_value() {
        check("int(5),set-var(txn.a),add(txn.a)", "10");
        check("int(5),set-var(txn.a),concat(-,txn.a,-)", "5-5-");
        check("str(b),set-var(txn.a),strcmp(txn.a)", "0");
        check("str(beta),set-var(txn.a),bytes(0,1),strcmp(txn.a)", "-1");
        check("str(b),set-var(txn.a,ifexists),concat(,txn.a)", "b");
        check("str(x),set-var(txn.a),unset-var(txn.a),concat(,txn.a)", "x");
        check("str(hello),set-var(txn.a),bytes(txn.b)", "-");
        check("str(a2V5),set-var(txn.k),hmac(sha256,txn.k),hex,length", "64");
        check("var(txn.none)", "-");
        check("var(txn.none,default)", "default");
    }

    #[test]
    fn fetches_without_traffic_return_their_values() {
        check("date", "1700000000");
        check("date(1,ms)", "1700000000124");
        check("date(0,us)", "1700000000123456");
        check("date_us", "123456");
        check("hostname", "host");
        check("pid", "300");
        check("env(HOME)", "/root");
        check("env(NOTHING)", "-");
        check("rand(1)", "0");
        check("uuid,length", "36");
        check("uuid(7),bytes(14,1)", "7");
        check("acl(TRUE)", "1");
        check("acl(TRUE,!FALSE)", "1");
        check("acl(TRUE,FALSE)", "0");
    }

    #[test]
    fn accepts_converters_as_separate_words() {
        let fixture = Fixture::new();
        let words: Vec<&[u8]> = "str(A), lower upper if TRUE".split(' ').map(str::as_bytes).collect();
        let mut at = 0;
        let expr = Expr::parse(&words, &mut at, &fixture.scope()).unwrap();
        assert_eq!((at, expr.text()), (3, "str(A),lower,upper"));
    }

    #[test]
    fn expression_errors_have_a_span_and_a_suggestion() {
        let fixture = Fixture::new();
        let error = fixture.parse("str(a),lwoer").unwrap_err();
        assert_eq!((error.span, error.suggestion.as_deref()), (Some(7..12), Some("lower")));
        let error = fixture.parse("sts(a)").unwrap_err();
        assert_eq!((error.span, error.suggestion.as_deref()), (Some(0..3), Some("str")));
        let error = fixture.parse("ssl_fc").unwrap_err();
        assert_eq!(error.message, "fetch method 'ssl_fc' is not implemented yet");
        let error = fixture.parse("str(a),ip.ttl").unwrap_err();
        assert_eq!(error.message, "converter 'ip.ttl' is not implemented yet");
    }

    #[test]
    fn a_fetch_unavailable_in_its_rule_set_is_rejected() {
        let fixture = Fixture::new();
        let scope = ExpressionScope {
            points: crate::EvaluationPoint::FrontendRequestHeader.into(),
            ..fixture.scope()
        };
        let error = Expr::parse_text(b"res.hdr", &scope).unwrap_err();
        assert_eq!(
            error.message,
            "fetch method 'res.hdr' extracts information from 'HTTP response headers', none of which is available here"
        );
    }

    #[test]
    fn references_to_proxies_are_resolved_after_parsing() {
        let fixture = Fixture::new();
        let expr = fixture.parse("be_conn(other)").unwrap();
        let mut context = TestContext::default();
        assert_eq!(expr.evaluate(&mut context), FetchResult::Missing);
        expr.visit_references(&mut |reference| {
            assert_eq!(reference.name.as_deref(), Some("other"));
            reference.resolve((4, 0));
        });
        assert_eq!(expr.evaluate(&mut context), FetchResult::value(Value::Int(4)));
    }

    #[test]
    fn converters_borrow_values_that_they_do_not_change() {
        let fixture = Fixture::new();
        let expr = fixture.parse("req.hdr(one two),field(2,' '),lower,ltrim(x)").unwrap();
        let mut context = TestContext::default();
        let FetchResult::Sample(sample) = expr.evaluate(&mut context) else { panic!("there is a header") };
        assert!(matches!(sample.value, Value::Str(std::borrow::Cow::Borrowed(b"two"))));
    }

    #[test]
    fn capture_and_debug_converters_reach_the_context() {
        let fixture = Fixture::new();
        let mut context = TestContext::default();
        let expr = fixture.parse("str(a),capture-req(0),debug(seen,stderr)").unwrap();
        assert!(expr.evaluate(&mut context).sample().is_some());
        assert_eq!(context.captured, [b"a"]);
        assert_eq!(context.debugged, ["stderr seen: type=str <a>"]);
        let expr = fixture.parse("str(a),capture-res(9)").unwrap();
        assert_eq!(expr.evaluate(&mut context), FetchResult::Missing);
    }
}
