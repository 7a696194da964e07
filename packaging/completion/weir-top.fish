# Generated from the rows of the program: make reference.
complete -c weir-top -f
complete -c weir-top -s s -r -F -d 'the path of a stats socket, or host:port; of a master\'s socket, the worker is shown'
complete -c weir-top -s i -x -d 'how often to ask, 1 by default, at most 3600'
complete -c weir-top -l once -d 'print one picture as plain text and end; for scripts, and where there is no terminal'
complete -c weir-top -l view -x -a 'overview frontends backends servers errors sessions' -d 'begin with this view: overview, frontends, backends, servers, errors or sessions; with --once, print it alone'
complete -c weir-top -l filter -x -d 'show only names that contain this text'
complete -c weir-top -l sort -x -d 'sort by the column with this title, the largest first'
complete -c weir-top -l read-only -d 'refuse to change anything'
complete -c weir-top -l ascii -d 'draw with ASCII alone, also where the locale has UTF-8'
complete -c weir-top -l no-color -d 'use no colours; the variable NO_COLOR does the same'
complete -c weir-top -s h -l help -d 'print this help'
complete -c weir-top -s V -l version -d 'print the version'
