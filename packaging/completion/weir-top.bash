# Generated from the rows of the program: make reference.
_weir_top() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
    case $previous in
    -s) COMPREPLY=($(compgen -f -- "$word")); return ;;
    --view) COMPREPLY=($(compgen -W 'overview frontends backends servers errors sessions' -- "$word")); return ;;
    -i|--filter|--sort) COMPREPLY=(); return ;;
    esac
    COMPREPLY=($(compgen -W "-s -i --once --view --filter --sort --read-only --ascii --no-color -h --help -V --version" -- "$word"))
}
complete -o filenames -F _weir_top weir-top
