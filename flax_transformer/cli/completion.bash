_flax_transformer() {
    local word=${COMP_WORDS[COMP_CWORD]} words= files=yes
    case "$COMP_CWORD ${word:0:1} ${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD-1]}" in
        ROWS
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    local IFS=$'\n'
    [[ -z $files || $word == -* ]] || COMPREPLY+=($(compgen -f -- "$word"))
    return 0
}
complete -o filenames -F _flax_transformer flax-transformer
