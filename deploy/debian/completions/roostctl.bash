# Completion of roostctl for bash. It asks roostctl itself for commands, options and choices, so it knows those of its
# version.

_roostctl() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command=("${COMP_WORDS[1]}") words=''
  [ "${command[0]}" != key ] || command+=("${COMP_WORDS[2]}")
  if [ "$word" = = ]; then word=''; fi
  if [ "$before" = = ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi

  if [ "$COMP_CWORD" -eq 1 ]; then
    words="$(roostctl --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p') --help --version"
  elif [ "$COMP_CWORD" -eq 2 ] && [ "${command[0]}" = key ]; then
    words='link new'
  else
    local help
    help=$(roostctl "${command[@]}" --help 2>/dev/null)
    case "$before" in
      --*) words=$(sed -n "s/^  $before [^ ]*{\([^}]*\)}.*/\1/p" <<<"$help" | tr , ' ') ;;
    esac
    case "$word" in
      -*) words=$(sed -n 's/^  \(--[a-z][a-z-]*\).*/\1/p' <<<"$help") ;;
    esac
  fi

  if [ -n "$words" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}

complete -F _roostctl roostctl
