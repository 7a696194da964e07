//! The types that a file declares and the methods of its `impl` blocks, without code of tests.
//!
//! Code of tests is an item behind `cfg(test)` or `cfg(loom)`, and a file that such a module names. Types inside functions and
//! declarations that a macro writes are not seen.

mod lexemes;

use std::collections::BTreeMap;

use crate::{Crate, Workspace};
use lexemes::{Lexeme, Lexemes};

/// The declarations of a crate's `src` folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Declarations {
    /// The types: structs, enums, unions, traits and aliases. Each with the file that declares it.
    pub types: Vec<(String, String)>,
    /// The number of functions in inherent `impl` blocks, by the type's name without its path.
    pub methods: BTreeMap<String, usize>,
}

impl Declarations {
    /// The declarations of a crate.
    pub(crate) fn of_crate(member: &Crate, workspace: &Workspace) -> Self {
        let folder = format!("{}/src/", member.folder);
        let sources = workspace.sources.iter().filter(|source| source.path.starts_with(&folder));
        let files = Vec::from_iter(
            sources.map(|source| (source.path.as_str(), FileDeclarations::read(&source.text))),
        );
        let mut tests = Vec::new();
        for (path, file) in &files {
            tests.extend(file.test_modules.iter().map(|module| format!("{}{module}", beside(path))));
        }
        let is_test = |path: &str| {
            let mut inside = tests.iter().filter_map(|module| path.strip_prefix(module.as_str()));
            inside.any(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        let mut found = Self::default();
        for (path, file) in files.iter().filter(|(path, _)| !is_test(path)) {
            found.types.extend(file.types.iter().map(|name| ((*name).to_owned(), (*path).to_owned())));
            for (name, methods) in &file.impls {
                *found.methods.entry((*name).to_owned()).or_default() += methods;
            }
        }
        found
    }
}

/// The folder of a file's modules, with its `/`.
fn beside(path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    match file {
        "lib.rs" | "main.rs" | "mod.rs" => format!("{folder}/"),
        _ => format!("{}/", path.trim_end_matches(".rs")),
    }
}

/// Reads the declarations of one file.
struct FileDeclarations<'t> {
    lexemes: std::iter::Peekable<Lexemes<'t>>,
    types: Vec<&'t str>,
    /// Each inherent `impl` block: its type and its number of functions.
    impls: Vec<(&'t str, usize)>,
    /// The modules in files of their own that only tests compile, relative to the folder of the file's modules.
    test_modules: Vec<String>,
}

impl<'t> FileDeclarations<'t> {
    fn read(text: &'t str) -> Self {
        let lexemes = Lexemes::new(text).peekable();
        let mut file = Self { lexemes, types: Vec::new(), impls: Vec::new(), test_modules: Vec::new() };
        file.items("", false);
        file
    }

    /// Reads items up to the end of their module. `inside` is the path of the inline modules, `of_tests` whether only tests
    /// compile it.
    fn items(&mut self, inside: &str, of_tests: bool) {
        let mut is_test = of_tests;
        while let Some(lexeme) = self.lexemes.next() {
            match lexeme {
                Lexeme::Mark('}') => return,
                Lexeme::Mark('#') => is_test |= self.attribute(),
                Lexeme::Mark('(' | '[') => self.skip_group(),
                Lexeme::Mark('{') => {
                    self.skip_group();
                    is_test = of_tests;
                }
                Lexeme::Mark(';') => is_test = of_tests,
                Lexeme::Word("mod") => {
                    self.module(inside, is_test);
                    is_test = of_tests;
                }
                Lexeme::Word("impl") => {
                    let block = self.implementation();
                    self.impls.extend(block.filter(|_| !is_test));
                    is_test = of_tests;
                }
                Lexeme::Word("fn") => {
                    self.skip_function();
                    is_test = of_tests;
                }
                Lexeme::Word("struct" | "enum" | "union" | "trait" | "type") => {
                    if let Some(&Lexeme::Word(name)) = self.lexemes.peek() {
                        self.types.extend((!is_test).then_some(name));
                    }
                }
                _ => {}
            }
        }
    }

    /// After `mod`.
    fn module(&mut self, inside: &str, is_test: bool) {
        let Some(Lexeme::Word(name)) = self.lexemes.next() else { return };
        match self.lexemes.next() {
            Some(Lexeme::Mark('{')) => self.items(&format!("{inside}{name}/"), is_test),
            _ if is_test => self.test_modules.push(format!("{inside}{name}")),
            _ => {}
        }
    }

    /// After `impl`: the type and the number of functions of an inherent block.
    fn implementation(&mut self) -> Option<(&'t str, usize)> {
        let (mut name, mut depth, mut is_bound, mut of_trait) = (None, 0_usize, false, false);
        let mut before = ' ';
        while let Some(lexeme) = self.lexemes.next() {
            match lexeme {
                Lexeme::Mark('<') => depth += 1,
                // The arrow of a function's type closes nothing.
                Lexeme::Mark('>') if before != '-' => depth = depth.saturating_sub(1),
                Lexeme::Mark('(' | '[') => self.skip_group(),
                Lexeme::Mark('{') if depth > 0 => self.skip_group(),
                Lexeme::Mark('{') => break,
                Lexeme::Word("where") => is_bound = true,
                Lexeme::Word("for") if depth == 0 && !is_bound => of_trait = true,
                Lexeme::Word(word) if depth == 0 && !is_bound => name = Some(word),
                _ => {}
            }
            before = if let Lexeme::Mark(mark) = lexeme { mark } else { ' ' };
        }
        let methods = self.methods();
        name.filter(|_| !of_trait).map(|name| (name, methods))
    }

    /// The number of functions up to the end of an `impl` block, without those of tests.
    fn methods(&mut self) -> usize {
        let (mut methods, mut is_test) = (0, false);
        while let Some(lexeme) = self.lexemes.next() {
            match lexeme {
                Lexeme::Mark('}') => break,
                Lexeme::Mark('#') => is_test |= self.attribute(),
                Lexeme::Mark('(' | '[' | '{') => self.skip_group(),
                Lexeme::Mark(';') => is_test = false,
                // Without a name it is the type of a function.
                Lexeme::Word("fn") if matches!(self.lexemes.peek(), Some(Lexeme::Word(_))) => {
                    methods += usize::from(!is_test);
                    self.skip_function();
                    is_test = false;
                }
                _ => {}
            }
        }
        methods
    }

    /// After `fn`: skips the signature and the body.
    fn skip_function(&mut self) {
        while let Some(lexeme) = self.lexemes.next() {
            match lexeme {
                Lexeme::Mark('(' | '[') => self.skip_group(),
                Lexeme::Mark('{') => return self.skip_group(),
                Lexeme::Mark(';') => return,
                _ => {}
            }
        }
    }

    /// After `#`: whether the item behind the attribute is only compiled for tests.
    fn attribute(&mut self) -> bool {
        if self.lexemes.next_if_eq(&Lexeme::Mark('[')).is_none() {
            return false;
        }
        let is_condition = self.lexemes.peek() == Some(&Lexeme::Word("cfg"));
        let (mut depth, mut is_test, mut before) = (1, false, "");
        while depth > 0 {
            match self.lexemes.next() {
                Some(Lexeme::Mark('[' | '(' | '{')) => depth += 1,
                Some(Lexeme::Mark(']' | ')' | '}')) => depth -= 1,
                Some(Lexeme::Word(word)) => {
                    is_test |= matches!(word, "test" | "loom") && before != "not";
                    before = word;
                }
                Some(_) => {}
                None => break,
            }
        }
        is_condition && is_test
    }

    /// Skips up to the end of a group of brackets, after its beginning.
    fn skip_group(&mut self) {
        let mut depth = 1;
        while depth > 0 {
            match self.lexemes.next() {
                Some(Lexeme::Mark('(' | '[' | '{')) => depth += 1,
                Some(Lexeme::Mark(')' | ']' | '}')) => depth -= 1,
                Some(_) => {}
                None => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceFile;

    fn declared(files: &[(&str, &str)]) -> Declarations {
        let source =
            |(path, text): &(&str, &str)| SourceFile { path: format!("data/x/{path}"), text: (*text).into() };
        let workspace = Workspace { sources: files.iter().map(source).collect(), ..Workspace::default() };
        let member = Crate { folder: "data/x".into(), ..Crate::default() };
        Declarations::of_crate(&member, &workspace)
    }

    #[track_caller]
    fn check_types(text: &str, expected: &[&str]) {
        let types = declared(&[("src/lib.rs", text)]).types;
        assert_eq!(types.iter().map(|(name, _)| name).collect::<Vec<_>>(), expected, "{text}");
    }

    #[track_caller]
    fn check_methods(text: &str, expected: &[(&str, usize)]) {
        let methods = declared(&[("src/lib.rs", text)]).methods;
        let methods = Vec::from_iter(methods.iter().map(|(name, count)| (name.as_str(), *count)));
        assert_eq!(methods, expected, "{text}");
    }

    #[test]
    fn finds_every_kind_of_type() {
        check_types(
            "pub struct A<T>(T);\nenum B { X }\nunion C { a: u8 }\ntrait D {}\ntype E = fn() -> u8;",
            &["A", "B", "C", "D", "E"],
        );
        check_types("mod m { pub(crate) struct A; mod n { enum B {} } } struct C;", &["A", "B", "C"]);
    }

    #[test]
    fn ignores_associated_types_and_types_inside_functions() {
        check_types(
            "impl X { fn f() { struct A; } }\nimpl Y for X { type Z = u8; }\ntrait T { type U; }",
            &["T"],
        );
        check_types(
            "fn f(a: [u8; 2]) -> impl Fn() { struct A; }\nmacro_rules! m { () => { struct B; } }",
            &[],
        );
        check_types("// struct A;\nconst B: &str = \"struct C;\";", &[]);
    }

    #[test]
    fn ignores_types_of_tests() {
        check_types("#[cfg(test)]\nmod tests { struct A; mod m { struct B; } }\nstruct C;", &["C"]);
        check_types("#[cfg(all(test, loom))]\nstruct A { x: u8 }\nstruct B;", &["B"]);
        check_types("#[cfg(test)]\nuse a::{b};\n#[cfg(not(loom))]\nstruct A;", &["A"]);
        check_types("#[cfg(loom)]\nmod loom { struct A; }\nstruct B;", &["B"]);
        check_types("#[cfg(test)]\nuse a::b;\nstruct A;", &["A"]);
        check_types("#[cfg(test)]\nfn f() {}\n#[cfg(unix)]\n#[derive(Debug)]\nstruct A;", &["A"]);
        check_types("#[cfg(test)]\nimpl X {}\n#[derive(test)]\nstruct A;", &["A"]);
    }

    #[test]
    fn ignores_files_that_only_tests_compile() {
        let files = [
            (
                "src/lib.rs",
                "#[cfg(test)]\nmod fixture;\nmod product;\nmod inner { #[cfg(test)] mod storms; }",
            ),
            ("src/fixture.rs", "struct A;"),
            ("src/fixture/part.rs", "struct B;"),
            ("src/inner/storms.rs", "struct C;"),
            ("src/product.rs", "struct D;\n#[cfg(test)]\nmod tests;"),
            ("src/product/tests.rs", "struct E;"),
            ("src/product/fixture.rs", "struct F;"),
            ("src/other/mod.rs", "#[cfg(test)]\nmod loads;"),
            ("src/other/loads.rs", "struct G;"),
            ("tests/whole.rs", "struct H;"),
        ];
        let place = |name: &str, path: &str| (name.to_owned(), path.to_owned());
        assert_eq!(
            declared(&files).types,
            [place("D", "data/x/src/product.rs"), place("F", "data/x/src/product/fixture.rs")]
        );
    }

    #[test]
    fn counts_functions_of_inherent_blocks() {
        check_methods(
            "impl A { const X: fn(u8) = f; pub fn a(&self) { fn inner() {} } fn b() -> u8; }",
            &[("A", 2)],
        );
        check_methods(
            "impl<'a, F: Fn() -> u8> m::A<'a, F> where F: for<'b> Fn(&'b u8) { fn a() {} }",
            &[("A", 1)],
        );
        check_methods("impl<T> A<fn() -> T> { fn a() {} }", &[("A", 1)]);
        check_methods("impl A<{ 1 }> { fn a() {} } mod m { impl A { fn b() {} } }", &[("A", 2)]);
        check_methods(
            "impl A { #[cfg(test)] fn a() {} #[inline] fn b() {} #[cfg(test)] const X: u8 = 1; fn c() {} }",
            &[("A", 2)],
        );
    }

    #[test]
    fn ignores_blocks_of_traits_and_tests() {
        check_methods("impl T for A { fn a() {} }\nimpl<T> U<T> for m::B<T> where T: V { fn a() {} }", &[]);
        check_methods("#[cfg(test)]\nimpl A { fn a() {} }\nimpl B { fn a() {} }", &[("B", 1)]);
        check_methods("fn f(a: impl T) -> impl U { fn a() {} }", &[]);
    }

    #[test]
    fn sums_the_blocks_of_all_files() {
        let files = [("src/lib.rs", "impl A { fn a() {} }"), ("src/b.rs", "impl A { fn b() {} fn c() {} }")];
        assert_eq!(declared(&files).methods, BTreeMap::from([("A".to_owned(), 3)]));
    }
}
