# Completion of roostctl for fish. It asks roostctl itself for commands and options, so it knows those of its version.

function __roostctl_commands
    roostctl --help | string replace -rf '^  ([a-z][a-z-]*) +(.*)$' '$1\t$2'
end

function __roostctl_options
    set -l words (commandline -opc)[2..]
    set -l command $words[1]
    if test "$command" = key
        set command $words[1..2]
    end
    roostctl $command --help 2>/dev/null | string replace -rf '^  (--[a-z][a-z-]*).*$' '$1'
end

complete -c roostctl -n __fish_use_subcommand -f -a '(__roostctl_commands)'
complete -c roostctl -n '__fish_seen_subcommand_from key; and not __fish_seen_subcommand_from new link' -f -a 'new link'
complete -c roostctl -n 'not __fish_use_subcommand' -a '(__roostctl_options)'
