_standpipe_or_command() {
    local index
    for ((index = 2; index < COMP_CWORD; index++)); do
        if [[ ${COMP_WORDS[1]} == exec && ${COMP_WORDS[index]} == -- ]]; then
            COMPREPLY=()
            ((index + 1 == COMP_CWORD)) && COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
            return
        fi
    done
    _standpipe "$@"
}
complete -F _standpipe_or_command -o bashdefault -o default standpipe
