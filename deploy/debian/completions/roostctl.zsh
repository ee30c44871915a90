#compdef roostctl
# Completion of roostctl for zsh. It asks roostctl itself for commands and options, so it knows those of its version.

_roostctl() {
  local -a found command
  if ((CURRENT == 2)); then
    found=(${(f)"$(roostctl --help | sed -n 's/^  \([a-z][a-z-]*\)  *\(.*\)/\1:\2/p')"})
    _describe command found
    return
  fi
  if [[ $words[2] == key ]] && ((CURRENT == 3)); then
    found=('link:a key of the link' 'new:an API key')
    _describe kind found
    return
  fi
  command=($words[2])
  [[ $words[2] != key ]] || command+=($words[3])
  if [[ $words[CURRENT] == -* ]]; then
    found=(${(f)"$(roostctl $command --help 2>/dev/null | sed -n 's/^  \(--[a-z][a-z-]*\).*/\1/p')"})
    _describe option found
  else
    _files
  fi
}

_roostctl "$@"
