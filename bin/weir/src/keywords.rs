//! `-dK`: lists all keywords, from the tables that implement them.

use weir_expr::{Registry, docs};
use weir_stream::KEYWORDS;
use weir_vocabulary::fetch::FETCHES;

struct KeywordClass {
    name: &'static str,
    help: &'static str,
    dump: fn() -> String,
}

/// The lists of the given classes, separated by commas. `help` lists the classes.
pub(crate) fn dump(classes: &str) -> String {
    let mut text = String::new();
    for wanted in classes.split(',') {
        match CLASSES.iter().find(|class| class.name == wanted) {
            Some(class) => text.push_str(&(class.dump)()),
            None if wanted == "all" => CLASSES.iter().for_each(|class| text.push_str(&(class.dump)())),
            None => text.push_str(&help()),
        }
    }
    text
}

fn help() -> String {
    let rows = CLASSES.iter().map(|class| format!("{}: {}\n", class.name, class.help));
    format!("# List of supported keyword classes:\nall: everything\n{}", rows.collect::<String>())
}

fn registry() -> Registry {
    Registry::new(FETCHES.iter().map(|row| &row.decl))
}

static CLASSES: &[KeywordClass] = &[
    KeywordClass { name: "acl", help: "keywords of ACLs", dump: || docs::acl_keywords(&registry()) },
    KeywordClass {
        name: "cfg",
        help: "words of the configuration",
        dump: || weir_config::vocabulary::dump(&KEYWORDS),
    },
    KeywordClass { name: "cli", help: "commands of the runtime API", dump: weir_cli::keyword_dump },
    KeywordClass { name: "cnv", help: "sample converters", dump: docs::converters },
    KeywordClass { name: "flt", help: "filters", dump: || weir_config::vocabulary::filter_dump(&KEYWORDS) },
    KeywordClass { name: "smp", help: "sample fetches", dump: || docs::fetches(&registry()) },
    KeywordClass {
        name: "svc",
        help: "services",
        dump: || "# List of registered service names:\n".to_owned(),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keyword_dump_is_limited_to_the_selected_classes() {
        let all = dump("all");
        for class in CLASSES {
            let one = dump(class.name);
            assert!(one.starts_with("# List of registered"), "{one}");
            assert!(all.contains(&one), "{}", class.name);
        }
        assert_eq!(dump("cnv,acl"), dump("cnv") + &dump("acl"));
        assert!(dump("help").contains("cfg: ") && dump("nonsense").contains("smp: "));
    }

    #[test]
    fn the_keyword_dump_lists_rules_converters_commands_and_filters() {
        let all = dump("all");
        for word in [
            "\thttp-request return",
            "b64dec: bin => ",
            "show stat [WORKER]",
            "always_true: bool",
            "bwlim-out [BWLIM]\n",
            "hdr_beg = req.hdr -m beg",
        ] {
            assert!(all.contains(word), "{word}");
        }
    }
}
